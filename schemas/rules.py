"""Label rules: words and patterns that give a generated text a provisional label (study 2.4.4, 3.3).

A rule file is YAML like a job file, with the same refusals. Rules are tried in their order and the first that matches decides; a
text that none matches has the default label. A label from rules is provisional: it picks samples, people decide.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from schemas.errors import InvalidInput
from schemas.text_file import shown
from schemas.yaml_file import load_mapping

LABEL = r"^[a-z][a-z0-9_-]{0,31}$"
UNDECIDED = "undecided"
"""Where tables count items without a consensus; no rule may give it."""


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise PydanticCustomError("pattern", "no pattern", {"found": f"{shown(pattern)} ({error})"}) from None
    return pattern


def _free(label: str) -> str:
    if label == UNDECIDED:
        allowed = f"another label: {UNDECIDED} is no decision"
        raise PydanticCustomError("reserved", "reserved", {"found": label, "allowed": allowed})
    return label


LABEL_TEXT = "1..32 of a-z, 0-9, - and _, starting with a letter"
Label = Annotated[str, Field(pattern=LABEL, description=LABEL_TEXT), AfterValidator(_free)]
Word = Annotated[str, Field(min_length=1, max_length=100)]
Pattern = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_compiles)]


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Rule(_Model):
    """One rule: it matches a text that holds one of the words, or in which a pattern is found; case counts in neither."""

    label: Label = Field(description=LABEL_TEXT)
    # Strict(False) on the tuples alone: YAML has lists only.
    words: tuple[Word, ...] = Field(
        default=(), strict=False, max_length=1000, description="a list of at most 1000 texts of 1..100 characters"
    )
    patterns: tuple[Pattern, ...] = Field(
        default=(), strict=False, max_length=100, description="a list of at most 100 regular expressions of 1..200 characters"
    )

    @model_validator(mode="after")
    def _says_something(self) -> Rule:
        if not self.words and not self.patterns:
            raise PydanticCustomError("empty", "empty", {"found": "no word and no pattern", "allowed": "at least one of them"})
        return self

    def matches(self, text: str) -> bool:
        folded = text.casefold()
        return any(word.casefold() in folded for word in self.words) or any(
            re.search(pattern, text, re.IGNORECASE) for pattern in self.patterns
        )


class LabelRules(_Model):
    """The content of a rule file."""

    schema_version: int = Field(ge=1, le=1, description="1")
    default: Label = Field(default="other", description=f"{LABEL_TEXT}: the label of a text that no rule matches")
    rules: tuple[Rule, ...] = Field(default=(), strict=False, max_length=100, description="a list of at most 100 rules")

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Every label that a text can have, each once, in the order of the rules; the default last unless a rule gives it."""
        return tuple(dict.fromkeys([*(rule.label for rule in self.rules), self.default]))

    def label(self, text: str) -> str:
        return next((rule.label for rule in self.rules if rule.matches(text)), self.default)


def load_rules(path: Path) -> LabelRules:
    """Read and check a rule file. Raises InvalidInput with the first fault as one line."""
    data = load_mapping(path)
    try:
        return LabelRules.model_validate(data)
    except ValidationError as error:
        # An unknown key first: a misspelt one is also a missing one, and the misspelling is the cause.
        first = min(error.errors(include_url=False), key=lambda detail: detail["type"] != "extra_forbidden")
        context = first.get("ctx", {})
        missing, unknown = first["type"] == "missing", first["type"] == "extra_forbidden"
        found = context.get("found") or ("nothing" if missing else "an unknown key" if unknown else shown(first["input"]))
        model: type[BaseModel] = Rule if len(first["loc"]) > 2 else LabelRules
        keys = [part for part in first["loc"] if isinstance(part, str)]
        allowed = f"one of {', '.join(model.model_fields)}" if unknown else _description(model, keys[-1] if keys else "")
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(str(path), key, found, context.get("allowed") or allowed) from None


def _description(model: type[BaseModel], key: str) -> str:
    field = model.model_fields.get(key)
    return (field and field.description) or f"a mapping of {', '.join(model.model_fields)}"
