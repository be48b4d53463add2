from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from runner.protocols.breadth_accounting import account, report_tables
from schemas.catalog import Prompt

COHORT = [
    Prompt(f"{language}-{number:03d}", language, "sensitivity" if number > 20 else "ordinary", f"{language} {number}")
    for language in ("en", "zh")
    for number in range(1, 26)
]
EN = [prompt.prompt_id for prompt in COHORT if prompt.language == "en"]
ZH = [prompt.prompt_id for prompt in COHORT if prompt.language == "zh"]


def rows(prompts: Iterable[str], separated: Iterable[str]) -> Iterator[dict[str, object]]:
    differing = set(separated)
    return ({"prompt_id": prompt, "separated": prompt in differing} for prompt in prompts)


# A cohort with the numbers of study B.3: 12 separations a stage; at 8 tokens 6 English and 6 Chinese, 9 ordinary and 3 specially
# constructed ones; the 32-token file has five rows of prompts that had separated at 16.
AT_8 = [*EN[:4], *EN[20:22], *ZH[:5], ZH[20]]
AT_16 = [*EN[4:10], *ZH[5:11]]
AT_32 = [*EN[10:16], *ZH[11:17]]
REPEATED = AT_16[:5]


@pytest.fixture
def study() -> dict[int, list[dict[str, object]]]:
    everyone = [prompt.prompt_id for prompt in COHORT]
    after_8 = [prompt for prompt in everyone if prompt not in AT_8]
    after_16 = [prompt for prompt in after_8 if prompt not in AT_16]
    return {
        8: list(rows(everyone, AT_8)),
        16: list(rows(after_8, AT_16)),
        32: list(rows([*after_16, *REPEATED], [*AT_32, *REPEATED])),
    }


def test_numbers_of_the_study(study: dict[int, list[dict[str, object]]]) -> None:
    stages = account(COHORT, study).horizons
    assert [len(stage.at_risk) for stage in stages] == [50, 38, 26]
    assert [len(stage.new) for stage in stages] == [12, 12, 12]
    assert [len(stage.separated) for stage in stages] == [12, 24, 36]
    assert [stage.differences for stage in stages] == [12, 12, 17]
    assert [stage.repeated for stage in stages] == [0, 0, 5]
    assert [len(stage.without_result) for stage in stages] == [0, 0, 0]


def test_repeated_rows_are_not_new_events(study: dict[int, list[dict[str, object]]]) -> None:
    """R10: a row of an earlier stage counted again."""
    last = account(COHORT, study).horizons[-1]
    assert last.new == frozenset(AT_32)
    assert not last.new & frozenset(REPEATED)


def test_stage_table_is_that_of_the_study(study: dict[int, list[dict[str, object]]]) -> None:
    stages, languages, kinds = report_tables(account(COHORT, study))
    assert [tuple(row) for row in stages.rows] == [
        ("8 tokens", 50, 12, "12/50", 12, 0, 0),
        ("16 tokens", 38, 12, "24/50", 12, 0, 0),
        ("32 tokens", 26, 12, "36/50", 17, 5, 0),
    ]
    assert [tuple(row[:2]) for row in languages.rows] == [("en", "6/25"), ("zh", "6/25")]
    assert [tuple(row[:2]) for row in kinds.rows] == [("ordinary", "9/40"), ("sensitivity", "3/10")]
    assert [languages.rows[0][-1], languages.rows[1][-1]] == ["18/25", "18/25"]


def test_order_of_rows_and_stages_does_not_matter(study: dict[int, list[dict[str, object]]]) -> None:
    backwards = {horizon: study[horizon][::-1] for horizon in (32, 8, 16)}
    assert account(COHORT, backwards) == account(COHORT, study)


def test_prompt_without_result_leaves_the_cohort_at_risk(study: dict[int, list[dict[str, object]]]) -> None:
    lost = ZH[24]
    for horizon in (8, 16, 32):
        study[horizon] = [row for row in study[horizon] if row["prompt_id"] != lost]
    first, second, _ = account(COHORT, study).horizons
    assert first.without_result == {lost}
    assert lost not in second.at_risk
    assert second.without_result == frozenset()


def test_survivor_that_has_no_row_later_is_told(study: dict[int, list[dict[str, object]]]) -> None:
    study[16] = [row for row in study[16] if row["prompt_id"] != EN[4]]
    assert [stage.without_result for stage in account(COHORT, study).horizons] == [frozenset(), {EN[4]}, frozenset()]


def test_unfinished_run(study: dict[int, list[dict[str, object]]]) -> None:
    first, second, third = account(COHORT, {8: study[8], 16: [], 32: []}).horizons
    assert (len(first.separated), len(second.separated), len(third.separated)) == (12, 12, 12)
    assert len(second.without_result) == 38
    assert len(third.at_risk) == 0


def test_row_of_a_stranger_is_refused(study: dict[int, list[dict[str, object]]]) -> None:
    study[16].append({"prompt_id": "fr-001", "separated": True})
    with pytest.raises(ValueError, match=r"horizon 16: rows of prompts outside the cohort: \['fr-001'\]"):
        account(COHORT, study)
