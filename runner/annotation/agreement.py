"""How far two annotators agree: confusion, Cohen's kappa, consensus (study 2.4.4, 3.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property


@dataclass(frozen=True)
class Agreement:
    """Two annotators' labels of the same items, in the same order. labels: those that could be given."""

    labels: Sequence[str]
    first: Sequence[str]
    second: Sequence[str]

    def __post_init__(self) -> None:
        if len(self.first) != len(self.second):
            raise ValueError(f"{len(self.first)} labels of the first annotator, {len(self.second)} of the second")

    @property
    def items(self) -> int:
        return len(self.first)

    @cached_property
    def confusion(self) -> Mapping[tuple[str, str], int]:
        """(label of the first, label of the second) -> items; every pair of labels, most of them 0."""
        counts = Counter(zip(self.first, self.second, strict=True))
        return {(one, other): counts[one, other] for one in self.labels for other in self.labels}

    @property
    def agreed(self) -> int:
        """Items with equal labels."""
        return sum(one == other for one, other in zip(self.first, self.second, strict=True))

    @property
    def kappa(self) -> Fraction | None:
        """Cohen's kappa, (p_o - p_e) / (1 - p_e), exactly; None where it is undefined.

        p_o is the share of agreed items, p_e the share that two annotators with these marginals would agree on by chance. Without
        items there is neither, and where both gave one and the same label to all, p_e is 1 and the quotient 0/0.
        """
        first, second = Counter(self.first), Counter(self.second)
        by_chance = sum(first[label] * second[label] for label in first)  # p_e times the square of the items
        if by_chance == self.items**2:
            return None
        return Fraction(self.items * self.agreed - by_chance, self.items**2 - by_chance)


def consensus(first: str, second: str) -> str:
    """The label both gave; "" where they disagree, which leaves the item to adjudication."""
    return first if first == second else ""
