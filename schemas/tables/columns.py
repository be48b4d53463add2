"""Columns that stand in the tables of several protocols, in the same order and with the same meaning."""

from __future__ import annotations

from schemas.table import BOOL, INT, TEXT, Column, list_of

PROMPT = (
    Column("prompt_sha256", TEXT, "SHA-256 of the prompt's UTF-8 bytes"),
    Column("language", TEXT, "language tag of the prompt"),
    Column("kind", TEXT, "ordinary or sensitivity"),
    Column("checkpoint_identity", TEXT, "identity of the checkpoint"),
    Column("tokenizer_identity", TEXT, "SHA-256 of tokenizer.json"),
    Column("numerics", TEXT, "official or fp32"),
    Column("prompt_token_ids", list_of(INT), "token IDs of the prompt"),
)
"""What a unit of one prompt was about. `prompt_id` stands before it, as the table's key."""

BRANCH_CLASS = (
    Column("fork_experts", list_of(INT), "experts selected at the fork, in router order, which orders permute"),
    Column("structural_classes", INT, "classes of scheme B there are"),
    Column("structural_class", INT, "the class that is the branch"),
    Column("branch_order", INT, "order injected, the class's lower lexicographic rank"),
    Column("chosen_by", TEXT, "named, first_separating or max_linf: what chose the class"),
    Column("passed_over", TEXT, "classes that were preferred and cannot serve, and why; empty where there was none"),
)
"""The class that an endpoint substitution takes for its branch."""

CONTINUATIONS = (
    Column("native_token_ids", list_of(INT), "predicted token IDs, native"),
    Column("branch_token_ids", list_of(INT), "predicted token IDs, branch"),
    Column("substituted_token_ids", list_of(INT), "predicted token IDs, substituted"),
    Column("native_token_sha256", TEXT, "SHA-256 of the comma-joined native token IDs"),
    Column("branch_token_sha256", TEXT, "SHA-256 of the comma-joined branch token IDs"),
    Column("substituted_token_sha256", TEXT, "SHA-256 of the comma-joined substituted token IDs"),
    Column("native_text", TEXT, "predicted text, native"),
    Column("branch_text", TEXT, "predicted text, branch"),
    Column("substituted_text", TEXT, "predicted text, substituted"),
    Column("separated", BOOL, "the ordered token IDs of branch and native differ, so that the control shows a difference"),
    Column("first_difference", INT, "ordinal of the first predicted token that differs, null where none does", nullable=True),
)
"""What the three executions of an endpoint substitution went on to say."""
