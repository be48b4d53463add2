"""The study's figures pass the arithmetic, and any of them changed does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from runner.audit import AUDITS, STUDY, published, study
from runner.audit.ledger import Check, Entry, Tally
from runner.audit.persistent import Divergence


def entries() -> Mapping[str, Entry]:
    return {line.claim: line for line in published().entries}


def test_everything_published_holds() -> None:
    ledger = published()
    assert ledger.failed == []
    assert {line.claim.split(".")[0] for line in ledger.entries} == {one.protocol for one in AUDITS}
    assert {line.run for line in ledger.entries} == {STUDY}


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("persistent.trajectories", "768 = 3*64*4"),
        ("persistent.baselines", "3, 771 in all = 768+3"),
        ("canonical.trajectories", "12 = 3*4"),
        ("intermediates.schedules", "192 = 3*64"),
        ("post_mhc.vectors", "339/339 = (43-5)+7*43"),
        ("post_mhc.routes", "344/344 = 8*43"),
        ("persistent_state.states", "301/301 = 7*43"),
        ("persistent_state.values", "5883008 = the geometry's formula"),
        ("breadth.cumulative", "8: 12 = 12, 16: 24 = 12+12, 32: 36 = 12+12+12"),
        ("breadth.repeated", "8: 12 = 12-0, 16: 12 = 12-0, 32: 12 = 17-5"),
        ("event_direction.moves", "layoffs 202 = 202+0-0, hiring 113 = 110+3-0, other 45 = 48+0-3"),
        ("event_direction.executions", "20 = 2*10"),
    ],
)
def test_the_arithmetic_is_shown(claim: str, expected: str) -> None:
    assert entries()[claim].beside == expected


def test_the_two_axis_table_is_shown_as_sums_of_its_prompts() -> None:
    sums = entries()["persistent.sums"]
    for terms, total in (("59+63+39", "161"), ("58+60+60", "178"), ("61+57+54", "172")):
        assert terms in sums.found
        assert total in sums.beside


def changed_case(figures: Any, tuple_field: str, place: int, **changes: Any) -> Any:
    cases = list(getattr(figures, tuple_field))
    cases[place] = replace(cases[place], **changes)
    return replace(figures, **{tuple_field: tuple(cases)})


AXES = {**study.PERSISTENT.axes, "P32": Divergence(192, 162, 192, 115)}

WRONG = [
    ("replay.routes", replace(study.REPLAY, routes=Tally(12, 13))),
    ("replay.c_moe_max_abs", replace(study.REPLAY, c_moe_max_abs=1e-8)),
    ("sweep.orders", changed_case(study.SWEEP, "cases", 0, raw_orders=719)),
    ("sweep.classes", changed_case(study.SWEEP, "cases", 1, branches=359)),
    ("sweep.bounds", changed_case(study.SWEEP, "cases", 1, texts=361)),
    ("persistent.trajectories", replace(study.PERSISTENT, trajectories=767)),
    ("persistent.tokens", replace(study.PERSISTENT, complete=Tally(767, 768))),
    ("persistent.baselines", replace(study.PERSISTENT, baselines=2)),
    ("persistent.sums", replace(study.PERSISTENT, axes=AXES)),
    ("persistent.sums", changed_case(study.PERSISTENT, "cases", 11, divergence=Divergence(63, 54))),
    ("persistent.bounds", changed_case(study.PERSISTENT, "cases", 1, continuations=2)),
    ("canonical.trajectories", replace(study.CANONICAL, trajectories=11)),
    ("intermediates.schedules", replace(study.INTERMEDIATES, seeds=65)),
    ("intermediates.missing", changed_case(study.INTERMEDIATES, "checks", 2, missing=1)),
    ("propagation.ordinal", changed_case(study.PROPAGATION, "traces", 0, ordinal=4)),
    ("propagation.experts", changed_case(study.PROPAGATION, "traces", 0, terms=7)),
    ("post_mhc.vectors", changed_case(study.POST_MHC, "controls", 0, vectors=Tally(338, 338))),
    ("post_mhc.routes", changed_case(study.POST_MHC, "controls", 0, routes=Tally(343, 344))),
    ("post_mhc.prefork", changed_case(study.POST_MHC, "controls", 0, prefork=Tally(4, 5))),
    ("post_mhc.values", changed_case(study.POST_MHC, "controls", 0, values=16_383)),
    ("persistent_state.values", changed_case(study.PERSISTENT_STATE, "controls", 0, values=5_883_009)),
    ("persistent_state.states", changed_case(study.PERSISTENT_STATE, "controls", 0, states=Tally(300, 301))),
    ("persistent_state.topology", changed_case(study.PERSISTENT_STATE, "controls", 0, differing_layers=38)),
    ("persistent_state.fp64", changed_case(study.PERSISTENT_STATE, "controls", 0, fp64=Tally(42, 43))),
    ("event_direction.classes", replace(study.EVENT_DIRECTION, classes=359)),
    ("event_direction.labels", replace(study.EVENT_DIRECTION, provisional={"layoffs": 202, "hiring": 110, "other": 47})),
    ("event_direction.executions", replace(study.EVENT_DIRECTION, executions=19)),
    ("event_direction.tokens", replace(study.EVENT_DIRECTION, tokens=Tally(9, 10))),
    ("breadth.at_risk", changed_case(study.BREADTH, "stages", 1, at_risk=37)),
    ("breadth.cumulative", changed_case(study.BREADTH, "stages", 2, cumulative=41)),
    ("breadth.repeated", changed_case(study.BREADTH, "stages", 2, repeated=0)),
    ("breadth.groups", changed_case(study.BREADTH, "stages", 0, by_kind={"ordinary": (9, 40), "sensitivity": (2, 10)})),
]


@pytest.mark.parametrize(("claim", "figures"), WRONG, ids=[f"{claim}-{place}" for place, (claim, _) in enumerate(WRONG)])
def test_a_changed_figure_is_found(claim: str, figures: Any) -> None:
    protocol, _, name = claim.partition(".")
    claims = next(one.claims for one in AUDITS if one.protocol == protocol)
    check = next(one for one in claims if one.name == name).look(figures)
    assert isinstance(check, Check)
    assert not check.holds


def test_moved_labels_and_kappa_are_found_too() -> None:
    annotated = study.EVENT_DIRECTION.annotated
    assert annotated is not None
    claims = {one.name: one for one in next(one.claims for one in AUDITS if one.protocol == "event_direction")}
    for name, wrong in (
        ("moves", {"moved": {("other", "hiring"): 2}}),
        ("agreement", {"agreed": 5}),
        ("agreement", {"items": 7}),
    ):
        check = claims[name].look(replace(study.EVENT_DIRECTION, annotated=replace(annotated, **wrong)))
        assert isinstance(check, Check)
        assert not check.holds


def test_names_are_unique() -> None:
    for one in AUDITS:
        names = [claim.name for claim in one.claims]
        assert len(set(names)) == len(names)
