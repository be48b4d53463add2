"""Texts become items, items strata, strata a sample."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runner.protocols.event_direction import warning
from runner.protocols.event_direction_sample import Item, Stratum, draw, items, strata
from schemas.job.event_direction import EventDirectionJob, Sample
from schemas.rules import LabelRules, Rule

RULES = LabelRules(schema_version=1, rules=(Rule(label="layoffs", words=("裁员",)), Rule(label="hiring", words=("招人",))))


def rows(*texts: str, prompt: str = "zh-1") -> list[dict[str, Any]]:
    return [{"prompt_id": prompt, "structural_class": place, "text": text} for place, text in enumerate(texts)]


def job(labels: Iterable[str] | None = None, per_label: int = 5) -> EventDirectionJob:
    sample = Sample(per_label=per_label, labels=None if labels is None else tuple(labels))
    return EventDirectionJob(schema_version=1, name="x", protocol="event_direction", catalog="c", rules=RULES, sample=sample)


def test_equal_texts_are_one_item_with_all_their_classes() -> None:
    assert items(rows("招人", "裁员", "招人"), RULES) == [
        Item("zh-1", "招人", (0, 2), "hiring"),
        Item("zh-1", "裁员", (1,), "layoffs"),
    ]


def test_texts_of_several_lines_that_share_the_first_are_different_items() -> None:
    found = items(rows("他说\n招人", "他说\n裁员", "他说"), RULES)
    assert [(item.text, item.label) for item in found] == [
        ("他说\n招人", "hiring"), ("他说\n裁员", "layoffs"), ("他说", "other"),
    ]  # fmt: skip


def test_equal_texts_of_two_prompts_are_two_items() -> None:
    found = items(rows("a") + rows("a", prompt="zh-2"), RULES)
    assert [(item.prompt_id, item.classes) for item in found] == [("zh-1", (0,)), ("zh-2", (0,))]


def test_strata_follow_the_labels_of_the_job() -> None:
    found = items(rows("招人", "裁员", "招人", "x"), RULES)
    assert [(one.label, one.eligible) for one in strata(job(), found)] == [
        ("layoffs", (1,)), ("hiring", (0, 2)), ("other", (3,)),
    ]  # fmt: skip
    assert [one.label for one in strata(job(labels=["hiring"]), found)] == ["hiring"]


def test_a_draw_is_the_same_every_time_and_no_function_of_the_texts() -> None:
    eligible = range(100)
    drawn = draw(Sample(), "zh-016", "hiring", eligible)
    # By hand: sha256sum of "20260723/zh-016/hiring/<class>" for the hundred classes, the five smallest.
    assert drawn == (16, 21, 47, 66, 69)
    assert draw(Sample(seed=1), "zh-016", "hiring", eligible) != drawn
    assert draw(Sample(), "zh-016", "layoffs", eligible) != drawn
    assert draw(Sample(), "zh-016", "hiring", list(reversed(eligible))) == drawn


def test_a_class_that_is_no_longer_eligible_makes_room_for_one_other() -> None:
    drawn = draw(Sample(), "zh-016", "hiring", range(100))
    without = draw(Sample(), "zh-016", "hiring", [one for one in range(100) if one != drawn[0]])
    assert len(set(without) - set(drawn)) == 1


def test_a_small_stratum_is_drawn_whole_with_a_warning() -> None:
    assert draw(Sample(per_label=5), "p", "l", [7, 3]) == (3, 7)
    assert warning(Stratum("p", "l", (3, 7), (3, 7)), 5) == "2 instead of 5: there are no more"
    assert warning(Stratum("p", "l", (3, 7), (3, 7)), 2) == ""
