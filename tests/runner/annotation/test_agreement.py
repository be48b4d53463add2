"""Agreement of two annotators against cases worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from runner.annotation.agreement import Agreement, consensus


def of_counts(labels: str, counts: dict[str, int]) -> Agreement:
    """counts: "ab" -> items that the first annotator called a and the second b."""
    first = [pair[0] for pair, count in counts.items() for _ in range(count)]
    second = [pair[1] for pair, count in counts.items() for _ in range(count)]
    return Agreement(labels, first, second)


@pytest.mark.parametrize(
    ("labels", "counts", "kappa"),
    [
        # 35 of 50 agree: p_o = 0.7. Marginals 25/25 and 30/20: p_e = 0.5 * 0.6 + 0.5 * 0.4 = 0.5. (0.7 - 0.5) / 0.5 = 0.4
        ("yn", {"yy": 20, "yn": 5, "ny": 10, "nn": 15}, Fraction(2, 5)),
        # As often agreed as by chance: p_o = 0.6, marginals 70/30 and 60/40, p_e = 0.42 + 0.12 = 0.54. 0.06 / 0.46 = 3/23
        ("yn", {"yy": 45, "yn": 25, "ny": 15, "nn": 15}, Fraction(3, 23)),
        # Three labels, 6 items, all agreed (study 3.3): 1
        ("lho", {"ll": 2, "hh": 3, "oo": 1}, Fraction(1)),
        # Never agreed, marginals half and half: p_o = 0, p_e = 0.5: -1
        ("yn", {"yn": 3, "ny": 3}, Fraction(-1)),
        # 4 of 6; marginals l 3, h 2, o 1 and l 2, h 1, o 3: p_e = (6 + 2 + 3) / 36. (24/36 - 11/36) / (25/36) = 13/25
        ("lho", {"ll": 2, "lo": 1, "hh": 1, "ho": 1, "oo": 1}, Fraction(13, 25)),
    ],
)
def test_kappa_by_hand(labels: str, counts: dict[str, int], kappa: Fraction) -> None:
    assert of_counts(labels, counts).kappa == kappa


def test_kappa_is_undefined_where_both_gave_one_label_to_all() -> None:
    assert of_counts("yn", {"yy": 4}).kappa is None
    assert Agreement("yn", [], []).kappa is None


def test_one_label_each_but_another_one_is_no_agreement() -> None:
    assert of_counts("yn", {"yn": 4}).kappa == 0  # p_o = 0 and p_e = 0


def test_confusion_has_every_pair_of_labels() -> None:
    found = of_counts("yn", {"yy": 2, "yn": 1})
    assert dict(found.confusion) == {("y", "y"): 2, ("y", "n"): 1, ("n", "y"): 0, ("n", "n"): 0}
    assert (found.items, found.agreed) == (3, 2)


def test_a_disagreement_has_no_consensus() -> None:
    assert consensus("hiring", "hiring") == "hiring"
    assert consensus("hiring", "other") == ""


def test_labels_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="2 labels of the first annotator, 1 of the second"):
        Agreement("yn", ["y", "n"], ["y"])
