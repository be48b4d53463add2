"""What makes a claim hold, fail or not apply."""

from __future__ import annotations

from runner.audit.ledger import UNPUBLISHED, Absent, Check, Ledger, Tally, empirical, entry, every, same, structural, together


def test_a_tally_names_the_first_thing_that_is_not_right() -> None:
    tally = Tally.of([(True, "one", "a"), (False, "two", "b"), (False, "three", "c")])
    assert (str(tally), tally.fault, tally.file) == ("1/3", "two", "b")


def test_every_needs_all_to_be_right() -> None:
    assert every(Tally(3, 3)) == Check("3/3", "3/3", True)
    assert not getattr(every(Tally(2, 3, "third")), "holds", True)


def test_every_needs_as_many_as_are_expected() -> None:
    check = every(Tally(3, 3), 4, "2*2")
    assert check == Check("3/3", "4/4 = 2*2", False)


def test_every_says_nothing_of_nothing() -> None:
    assert isinstance(every(Tally(0, 0)), Absent)
    assert every(None) == UNPUBLISHED
    assert every(Tally(0, 0), 2) == Check("0/0", "2/2", False)


def test_together_fails_with_the_first_that_fails_and_says_why() -> None:
    check = together([("a", same(1, 1)), ("b", same(2, 3)), ("c", Check("4", "5", False, "the row"))])
    assert isinstance(check, Check)
    assert (check.found, check.holds, check.fault) == ("a 1, b 2, c 4", False, "b: 2 instead of 3")


def test_equal_figures_of_several_cases_are_shown_once() -> None:
    check = together([("a", same(7, 7)), ("b", same(7, 7))])
    assert isinstance(check, Check)
    assert check.found == "7 each"


def test_a_structural_claim_holds_or_fails_and_an_empirical_one_is_measured() -> None:
    must = structural("must", "1", "rows", "it must", lambda one: same(one, 5))
    seen = empirical("seen", "1", "rows", "it is seen", str)
    lines = [
        entry(claim, "p", claim.look(figure), "6", run="runs/a", folder="runs/a/tables/rows")
        for claim in (must, seen)
        for figure in (5, 4)
    ]
    assert [(line.claim, line.verdict, line.beside) for line in lines] == [
        ("p.must", "holds", "5"),
        ("p.must", "fails", "5"),
        ("p.seen", "measured", "6"),
        ("p.seen", "measured", "6"),
    ]
    assert lines[1].fault == "4 instead of 5"
    assert [line.claim for line in Ledger(lines).failed] == ["p.must"]
    assert not Ledger(lines).holds


def test_an_absent_figure_makes_a_claim_not_applicable() -> None:
    claim = structural("must", "1", "rows", "it must", lambda one: Absent("no such run"))
    line = entry(claim, "p", claim.look(None), "", run="", folder="")
    assert (line.verdict, line.found) == ("not applicable", "no such run")
    assert Ledger([line]).holds
