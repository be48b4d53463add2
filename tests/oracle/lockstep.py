"""The decoder and the numpy decoder side by side, half a layer at a time, in official numerics.

Rounding makes a deep model chaotic: one value that lies within FP32's error of a rounding tie, rounded the other way, changes
most bits a few layers on. So wherever a half layer differs, roundings must be found that lie on a tie and that, flipped, make its
results equal bit for bit; the numpy decoder takes these flips and goes on. A whole run is thus the numpy decoder's run but for a
list of single roundings, each shown with how near its tie is. What no flip makes equal is a fault.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import kernels
from oracle.checkpoint_files import Weights
from oracle.formats import F32, F64, round_bf16
from oracle.geometry import Geometry
from oracle.rounding import Event
from oracle.step_decoder import I64, Step, StepDecoder
from oracle.step_state import LayerState, SequenceState

CAPTURES = (
    "post_attention",
    "post_mhc",
    "router_scores",
    "route",
    "moe_terms",
    "moe_shared",
    "moe_output",
    "ffn_post",
    "ffn_comb",
    "index_rows",
    "logits",
)
TIE = 2.0**-20
"""A value nearer to a tie than this share of the terms it came from may round either way in FP32."""
CLOSE = 2.0**-18
"""Values that are not rounded agree within this share of the largest among them."""
MOST_FLIPS = 12
"""Flips sought in one half layer."""

Parts = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Seen:
    """What the decoder did with one token."""

    position: int
    token: int
    state: F32  # canonical values after the token
    captures: Mapping[str, npt.NDArray[Any]]  # [L,...] each, logits [V]


@dataclass(frozen=True)
class Flip:
    """One rounding that the decoder did the other way."""

    position: int
    point: str
    element: int
    value: float  # before rounding
    taken: float  # what the decoder rounded to
    distance: float  # from the value to the nearest that rounds to `taken`, as a share of the terms behind the value

    def __str__(self) -> str:
        return (
            f"position {self.position}, {self.point}[{self.element}]: {self.value!r} became {self.taken!r}, "
            f"{self.distance:.1e} of its terms off a tie"
        )


@dataclass
class Report:
    """What a comparison found."""

    halves: int = 0
    equal: int = 0
    flips: list[Flip] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        worst = max((flip.distance for flip in self.flips), default=0.0)
        return (
            f"{self.equal} of {self.halves} half layers equal, {len(self.flips)} flips explain all others "
            f"but {len(self.unexplained)}; the flip farthest from a tie is {worst:.1e} of its terms off"
        )


def observe(decoder: kernels.Decoder, tokens: Sequence[int]) -> Iterator[Seen]:
    """Feed tokens one by one to a fresh state and capture everything compared here."""
    state = decoder.new_state()
    everything = kernels.Intervention(capture=CAPTURES)
    for position, token in enumerate(tokens):
        result = decoder.step([kernels.Row(state, [int(token)], everything)])[0]
        yield Seen(position, int(token), state.values(), {name: result.captures[name][0] for name in CAPTURES})


class _GuidedDecoder(StepDecoder):
    """Takes the decoder's route where scores tie in FP32, so that the rest of the layer can be compared."""

    guide: I64 | None = None

    def route(self, layer: int, token: int, scores: F64) -> tuple[I64, float]:
        route, margin = super().route(layer, token, scores)
        return (route if self.guide is None else self.guide), margin


class Lockstep:
    """Compares one token after another, from position 0 on."""

    def __init__(self, geometry: Geometry, weights: Weights) -> None:
        self.geometry = geometry
        self.numpy = _GuidedDecoder(geometry, weights, official=True)
        self.report = Report()

    def compare(self, seen: Seen) -> None:
        """Compare every half layer and the head for one token."""
        streams = self.numpy.embed(seen.token)
        after = SequenceState.of_values(self.geometry, seen.state, seen.position + 1)
        for layer in range(self.geometry.num_hidden_layers):
            self._attention(seen, layer, streams, after.layers[layer])
            self._experts(seen, layer)
            streams = seen.captures["post_mhc"][layer].astype(np.float64)
        self._explain(seen, "head", lambda: {"logits": self.numpy.head(streams)}, {"logits": seen.captures["logits"]})
        self.numpy.state.position += 1

    def _attention(self, seen: Seen, layer: int, streams: F64, after: LayerState) -> None:
        slot = seen.position % self.geometry.sliding_window
        before = self.numpy.state.layers[layer]

        def parts(state: LayerState, rows: I64, middle: F64) -> Parts:
            found: Parts = {"window": state.window[slot], "rows": state.rows[-1:], "index row": state.index_rows[-1:]}
            if state.main is not None:
                found["kv_state"], found["score_state"] = state.main.kv, state.main.score
            if state.index is not None:
                found["index kv_state"], found["index score_state"] = state.index.kv, state.index.score
            return found | {"rows read": rows, "post_attention": middle}

        def run() -> Parts:
            # The decoder's next state is that of the last run, which is the one that was accepted.
            state = self.numpy.state.layers[layer] = copy.deepcopy(before)
            rows, _, middle = self.numpy.attention_half(layer, streams, state)
            return parts(state, rows, middle)

        rows = seen.captures["index_rows"][layer]
        target = parts(after, rows[rows >= 0], seen.captures["post_attention"][layer])
        if not self._explain(seen, f"layers.{layer} attention", run, target):
            self.numpy.state.layers[layer] = after

    def _experts(self, seen: Seen, layer: int) -> None:
        streams = seen.captures["post_attention"][layer].astype(np.float64)
        names = ("route", "router_scores", "moe_terms", "moe_shared", "moe_output", "ffn_post", "ffn_comb", "post_mhc")
        target = {name: seen.captures[name][layer] for name in names}
        target["rounded_terms"] = round_bf16(target["moe_terms"])
        self.numpy.guide = None

        def run() -> Parts:
            trace = self.numpy.moe_half(layer, seen.token, streams, np.zeros(0, np.int64), np.inf)
            if self.numpy.guide is None and trace.router_margin < TIE and not np.array_equal(trace.route, target["route"]):
                self.numpy.guide = target["route"].astype(np.int64)
                trace = self.numpy.moe_half(layer, seen.token, streams, np.zeros(0, np.int64), np.inf)
            return {name: getattr(trace, name) for name in target}

        self._explain(seen, f"layers.{layer} experts", run, target)
        self.numpy.guide = None

    def _explain(self, seen: Seen, what: str, run: Callable[[], Parts], target: Parts) -> bool:
        """Whether flips make run() equal to target; if so, the last run was the one with all of them.

        They are sought one after another: each is the first that sets all right, or else the one that helps most.
        """
        self.report.halves += 1
        flips: dict[tuple[str, int], Flip] = {}
        parts, events = self._traced(run, flips)
        wrong = differences(parts, target)
        while wrong and len(flips) < MOST_FLIPS:
            fewest, found = _count(wrong), None
            for flip in self._candidates(seen.position, events, flips, wrong, target):
                trial, _ = self._traced(run, flips | {(flip.point, flip.element): flip})
                count = _count(differences(trial, target))
                if count < fewest:
                    fewest, found = count, flip
                if count == 0:
                    break
            if found is None:
                break
            flips[found.point, found.element] = found
            parts, events = self._traced(run, flips)
            wrong = differences(parts, target)
        if wrong:
            counts = {name: len(elements) for name, elements in wrong.items()}
            self.report.unexplained.append(f"position {seen.position}, {what}: {counts} differ after {len(flips)} flips")
        elif not flips:
            self.report.equal += 1
        self.report.flips.extend(flips.values())
        return not wrong

    def _traced(self, run: Callable[[], Parts], flips: Mapping[tuple[str, int], Flip]) -> tuple[Parts, list[Event]]:
        rounding = self.numpy.round
        rounding.events, rounding.flips = [], {}
        for (point, element), flip in flips.items():
            rounding.flips.setdefault(point, {})[element] = flip.taken
        parts = run()
        events, rounding.events, rounding.flips = rounding.events, None, {}
        return parts, events

    def _candidates(
        self, position: int, events: Sequence[Event], taken: Iterable[tuple[str, int]], wrong: Mapping[str, I64], target: Parts
    ) -> list[Flip]:
        """Numbers that FP32 may have rounded to instead, nearest first, but exact ties last: FP32 holds most of those exactly.

        A rounding that is a result itself can only mend its own element, and is to take what was seen there.
        """
        found = []
        for event in events:
            result = next((part for point, part in RESULTS.items() if event.point.endswith(point)), None)
            if result is not None:
                choices = [(element, float(target[result].flat[element])) for element in wrong.get(result, ())]
            else:
                near = np.flatnonzero(event.tie_distance() < TIE)
                choices = [(element, number) for element in near for number in event.others(element, TIE)]
            for element, number in choices:
                distance = event.distance(element, number)
                if distance < TIE and (event.point, int(element)) not in taken:
                    found.append(Flip(position, event.point, int(element), float(event.values.flat[element]), number, distance))
        return sorted(found, key=lambda flip: (flip.distance == 0, flip.distance))


def replay(geometry: Geometry, weights: Weights, tokens: Sequence[int], flips: Sequence[Flip]) -> list[Step]:
    """The numpy decoder run freely over tokens, with these roundings taken the other way and no others."""
    decoder = StepDecoder(geometry, weights, official=True)
    steps = []
    for position, token in enumerate(tokens):
        decoder.round.flips = {}
        for flip in flips:
            if flip.position == position:
                decoder.round.flips.setdefault(flip.point, {})[flip.element] = flip.taken
        steps.append(decoder.step(token))
    return steps


def cause(flips: Sequence[Flip], happens: Callable[[Sequence[Flip]], bool]) -> Flip:
    """The flip, in order of occurrence, with which a difference first happens: it happens with all flips up to this one, and not
    without this one. `happens` replays a run with the flips it is given; it must be true of all of them and false of none.
    """
    without, with_it = 0, len(flips)
    while with_it - without > 1:
        middle = (without + with_it) // 2
        if happens(flips[:middle]):
            with_it = middle
        else:
            without = middle
    return flips[with_it - 1]


def differences(ours: Parts, theirs: Parts) -> dict[str, I64]:
    """Part -> elements that differ: of BF16 and integers any, of FP32 those farther apart than CLOSE of the part's largest."""
    wrong = {}
    for name, value in ours.items():
        other = np.asarray(theirs[name], np.float64)
        if value.shape != other.shape:
            wrong[name] = np.arange(max(value.size, other.size))
            continue
        unequal = value != other
        if name not in EXACT:
            with np.errstate(invalid="ignore"):
                unequal &= ~(np.abs(value - other) <= CLOSE * np.max(np.abs(other), where=np.isfinite(other), initial=0))
        wrong[name] = np.flatnonzero(unequal)
    return {name: elements for name, elements in wrong.items() if elements.size}


def _count(wrong: Mapping[str, I64]) -> int:
    return sum(elements.size for elements in wrong.values())


RESULTS = {
    ".post_attention": "post_attention",
    ".shared_experts.w2": "moe_shared",
    ".ffn.output": "moe_output",
    ".post_mhc": "post_mhc",
}
"""End of a rounding point's name -> the part that it is."""
EXACT = frozenset(
    {"window", "rows", "index row", "rows read", "route", "rounded_terms", *RESULTS.values()},
)
"""Parts in BF16 or of integers."""
