"""What must hold between the rows of an event-direction run on any checkpoint; a line a violation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import kernels
from schemas.digest import tokens_sha256

OF_THE_UNIT = frozenset({"first_class", "classes", "unit_key"})
"""Columns of event_direction_forks that say which unit it was; the others are the same for all units of a prompt."""

OF_THE_EXECUTION = frozenset({"run", "unit_key"})
"""Columns of event_direction_replays in which two executions of a branch may differ."""

Rows = Sequence[Mapping[str, Any]]


def fork_violations(forks: Rows) -> list[str]:
    """Every unit of a prompt found the same fork and the same native reference."""
    first: dict[str, Mapping[str, Any]] = {}
    violations = []
    for row in forks:
        reference = first.setdefault(row["prompt_id"], row)
        differing = [column for column in row if column not in OF_THE_UNIT and row[column] != reference[column]]
        if differing:
            violations.append(f"{row['prompt_id']}, classes from {row['first_class']}: another fork: {', '.join(differing)}")
    return violations


def class_violations(forks: Rows, classes: Rows, horizon: int) -> list[str]:
    """Each class is one of its fork's, has its lower order and its tokens, and equal post-mHC states have equal futures (study
    3.2.2), native's too.
    """
    futures: dict[tuple[str, str], list[int]] = {}
    algebra: dict[str, list[tuple[int, int]]] = {}
    for fork in forks:
        futures[fork["prompt_id"], fork["native_post_mhc_sha256"]] = fork["native_token_ids"]
        algebra[fork["prompt_id"]] = kernels.structural_classes(len(fork["fork_experts"]))
    violations = []
    for row in classes:
        where = f"{row['prompt_id']}, class {row['structural_class']}"
        pairs = algebra.get(row["prompt_id"], [])
        if not pairs:
            violations.append(f"{where}: the prompt's fork has no row")
        elif not 0 <= row["structural_class"] < len(pairs):
            violations.append(f"{where}: the fork has {len(pairs)} classes")
        elif row["branch_order"] != pairs[row["structural_class"]][0]:
            violations.append(f"{where}: order {row['branch_order']} is not its lower one")
        violations += [f"{where}: {line}" for line in _token_violations(row, horizon)]
        if futures.setdefault((row["prompt_id"], row["post_mhc_sha256"]), row["token_ids"]) != row["token_ids"]:
            violations.append(f"{where}: another execution from an equal post-mHC state gave other tokens")
    return violations


def replay_violations(classes: Rows, replays: Rows, horizon: int) -> list[str]:
    """Both executions of a branch agree in everything, and begin with what the class said at first (study 3.4)."""
    said = {(row["prompt_id"], row["structural_class"]): row for row in classes}
    first: dict[tuple[str, int], Mapping[str, Any]] = {}
    violations = []
    for row in replays:
        branch = (row["prompt_id"], row["structural_class"])
        where = f"{row['prompt_id']}, class {row['structural_class']}, replay {row['run']}"
        violations += [f"{where}: {line}" for line in _token_violations(row, horizon)]
        trace = said.get(branch)
        if trace is None:
            violations.append(f"{where}: the class itself has no row")
            continue
        if row["token_ids"][: len(trace["token_ids"])] != trace["token_ids"]:
            violations.append(f"{where}: begins with other tokens than the class's first execution")
        for column in ("branch_order", "post_mhc_sha256"):
            if row[column] != trace[column]:
                violations.append(f"{where}: {column} is {row[column]}, at first it was {trace[column]}")
        one = first.setdefault(branch, row)
        differing = [column for column in row if column not in OF_THE_EXECUTION and row[column] != one[column]]
        if differing:
            violations.append(f"{where}: differs from replay {one['run']} in {', '.join(differing)}")
    return violations


def _token_violations(row: Mapping[str, Any], horizon: int) -> list[str]:
    lines = []
    if len(row["token_ids"]) != horizon:
        lines.append(f"{len(row['token_ids'])} generated tokens instead of {horizon}")
    if row["token_sha256"] != tokens_sha256(row["token_ids"]):
        lines.append("the digest is not that of the tokens")
    return lines
