"""The BF16 rounding points of the official path, named, recorded on request, and able to be flipped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from oracle.formats import F64, bf16_bits, from_bf16_bits, round_bf16


@dataclass(frozen=True)
class Event:
    """One rounding: where it happened, the values before it, and how to get the sums of absolute terms they came from."""

    point: str
    values: F64
    terms: Callable[[], F64] | None

    @cached_property
    def magnitude(self) -> F64:
        """Computed when asked for: most roundings are looked at by no one."""
        return np.abs(self.values) if self.terms is None else self.terms()

    def tie_distance(self) -> F64:
        """Per element, the distance to where BF16 rounding changes its mind, as a share of `magnitude` (inf for zero).

        FP32 arithmetic errs by some 2^-24 of the magnitude, so an engine may land on the other side only where this is tiny.
        """
        _, exponent = np.frexp(self.values)
        step = np.ldexp(1.0, exponent - 8)  # BF16 keeps 8 significant bits
        fraction = np.abs(self.values) / step
        distance = np.abs(fraction - np.floor(fraction) - 0.5) * step
        return np.divide(distance, self.magnitude, out=np.full(distance.shape, np.inf), where=self.values != 0)

    def distance(self, element: int, number: float) -> float:
        """How far the element lies from where it would begin to round to a BF16 number, as a share of its magnitude.

        It may lie beyond that point by less than FP32 can tell, for it goes through FP32 before it is rounded.
        """
        value, magnitude = float(self.values.flat[element]), float(self.magnitude.flat[element])
        code = bf16_bits(number).item() + (1 if abs(value) > abs(number) else -1)
        boundary = (number + from_bf16_bits(np.array(code, np.uint16)).item()) / 2
        return abs(boundary - value) / magnitude

    def others(self, element: int, error: float) -> list[float]:
        """BF16 numbers that the element may round to when it errs by this share of its magnitude; at most four on a side.

        One, as a rule; cancellation may leave a value so small that the error spans several.
        """
        taken = bf16_bits(round_bf16(self.values.flat[element])).item()
        around = from_bf16_bits(np.array([taken + step for step in range(-4, 5) if step], np.uint16))
        return [number for number in around.tolist() if self.distance(element, number) < error]


class Rounding:
    """Rounds to BF16 in the official path and passes values through in exact arithmetic.

    `events`: a list that collects every Event while it is not None. `flips`: point -> flat element -> the number to take instead
    of the rounded one, which replays what an engine with other last bits did.
    """

    def __init__(self, official: bool) -> None:
        self.official = official
        self.events: list[Event] | None = None
        self.flips: dict[str, dict[int, float]] = {}

    def __call__(self, x: npt.ArrayLike, point: str, terms: Callable[[], F64] | None = None) -> F64:
        """Round x at a point. terms: gives the sums of absolute terms behind x; without it, |x|. It may be called later."""
        values = np.asarray(x, np.float64)
        if not self.official:
            return values
        if self.events is not None:
            self.events.append(Event(point, values.copy(), terms))
        rounded = round_bf16(values).astype(np.float64)
        for element, number in self.flips.get(point, {}).items():
            rounded.flat[element] = number
        return rounded
