"""Label rules: what they match and what a rule file may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.errors import InvalidInput
from schemas.rules import LabelRules, load_rules

SHIPPED = Path(__file__).parents[2] / "jobs" / "rules" / "event_direction.yaml"


def rules(folder: Path, text: str) -> Path:
    path = folder / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("，说他们公司要裁员，", "layoffs"),
        ("，说他们公司要招人，", "hiring"),
        ("，说他们公司要招人，\n然后又要裁员", "layoffs"),
        ("The firm is HIRING again", "hiring"),
        ("he was\nlaid off", "layoffs"),
        ("she lost her job", "layoffs"),
        ("the shire", "other"),
        ("，我还想知道", "other"),
        ("", "other"),
    ],
)
def test_the_shipped_rules_say_which_way_the_workforce_goes(text: str, label: str) -> None:
    assert load_rules(SHIPPED).label(text) == label


@pytest.mark.parametrize("path", sorted(SHIPPED.parent.glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_rule_file_is_valid_and_gives_each_of_its_labels(path: Path) -> None:
    found = load_rules(path)
    assert {found.label(rule.words[0]) for rule in found.rules} == {rule.label for rule in found.rules}


def test_the_first_rule_that_matches_decides(tmp_path: Path) -> None:
    found = load_rules(rules(tmp_path, "schema_version: 1\nrules: [{label: b, words: [x]}, {label: a, words: [x, y]}]\n"))
    assert [found.label(text) for text in ("x", "y", "z")] == ["b", "a", "other"]
    assert found.labels == ("b", "a", "other")


def test_words_are_no_patterns_and_patterns_are(tmp_path: Path) -> None:
    found = load_rules(
        rules(tmp_path, "schema_version: 1\nrules: [{label: a, words: [x.y]}, {label: b, patterns: ['^x.*z$']}]\n")
    )
    assert [found.label(text) for text in ("x.y", "xay", "x..z")] == ["a", "other", "b"]


def test_without_rules_every_text_has_the_default(tmp_path: Path) -> None:
    found = load_rules(rules(tmp_path, "schema_version: 1\ndefault: rest\n"))
    assert found.label("anything") == "rest"
    assert found.labels == ("rest",)


def test_rules_are_read_back_as_they_were() -> None:
    found = load_rules(SHIPPED)
    assert LabelRules.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rules: []", "schema_version: found nothing, allowed: 1"),
        ("schema_version: 2", "schema_version: found 2, allowed: 1"),
        ("schema_version: 1\nrule: []", "rule: found an unknown key, allowed: one of schema_version, default, rules"),
        ("schema_version: 1\nrules: [{label: A, words: [x]}]", "rules.0.label: found 'A', allowed: 1..32 of a-z"),
        ("schema_version: 1\nrules: [{label: undecided, words: [x]}]", "rules.0.label: found undecided, allowed: another label"),
        ("schema_version: 1\nrules: [{label: a}]", "rules.0: found no word and no pattern, allowed: at least one of them"),
        ("schema_version: 1\nrules: [{label: a, word: [x]}]", "rules.0.word: found an unknown key, allowed: one of label, words"),
        ("schema_version: 1\nrules: [{label: a, words: [1]}]", "rules.0.words.0: found 1, allowed: a"),
        ("schema_version: 1\nrules: [{label: a, words: x}]", "rules.0.words: found 'x', allowed: a list of at most 1000 texts"),
        ("schema_version: 1\nrules: [{label: a, patterns: ['(']}]", "rules.0.patterns.0: found '(' ("),
        ("schema_version: 1\ndefault: 5", "default: found 5, allowed: 1..32 of a-z"),
        ("- a", "line 1: found a list of 1, allowed: a mapping of keys to values"),
    ],
)
def test_a_bad_rule_file_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    path = rules(tmp_path, text + "\n")
    with pytest.raises(InvalidInput) as caught:
        load_rules(path)
    assert str(caught.value).startswith(f"{path}: {line}")
    assert "\n" not in str(caught.value)
