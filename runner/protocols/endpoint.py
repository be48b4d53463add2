"""What both endpoint substitutions need: executions that are recorded, the class that is the branch, and differences that can be
added (study 2.4.2, 2.4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import kernels
from actors.executor import Session
from runner.protocols.fork import FORK_CAPTURES, Classes, Fork
from runner.protocols.injection import require_enumerated
from runner.protocols.trajectory import STEP_CAPTURES, Trajectory, advance, prefill
from schemas.digest import tokens_sha256
from schemas.errors import InvalidInput
from schemas.unit import Unit

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

CLASSES_AT_ONCE = 64
"""Continuations advanced together in the search for a class that separates: rows of one step read the weights once."""


@dataclass(eq=False)
class Recording:
    """One execution of a prompt, from its own prefill on, every decode step recorded.

    post_mhc: for each decode input FP32 [layers, hc, D]. states: the persistent state after each of them; these share the rows
    that were not written since.
    """

    trajectory: Trajectory
    post_mhc: list[F32] = field(default_factory=list)
    states: list[kernels.State] = field(default_factory=list)

    @classmethod
    def start(cls, decoder: kernels.Decoder, prompt: Sequence[int]) -> Recording:
        """Process the prompt by the native path; nothing of another execution is shared."""
        return cls(prefill(decoder, [prompt])[0])

    @property
    def fork_position(self) -> int:
        return len(self.trajectory.prompt)

    def step(self, decoder: kernels.Decoder, **intervention: Any) -> None:
        """One decode step, natively unless an intervention says otherwise."""
        capture = (*STEP_CAPTURES, "post_mhc")
        (result,) = advance(decoder, [self.trajectory], [kernels.Intervention(capture=capture, **intervention)])
        self.post_mhc.append(np.asarray(result.captures["post_mhc"][0], dtype=np.float32))
        self.states.append(self.trajectory.state.fork())

    def finish(self, decoder: kernels.Decoder, decode_inputs: int) -> Recording:
        """Go on natively until so many generated tokens were processed."""
        while len(self.post_mhc) < decode_inputs:
            self.step(decoder)
        return self


@dataclass(frozen=True, eq=False)
class Probe:
    """The execution that enumerates: native up to the fork, where every class is computed from the captured operands.

    before: the trajectory that the forked step starts from. native_next: the token that the native forked step predicts.
    """

    decoder: kernels.Decoder
    layer: int
    before: Trajectory
    native_next: int
    fork: Fork
    classes: Classes

    @classmethod
    def at(cls, decoder: kernels.Decoder, prompt: Sequence[int], layer: int, where: str) -> Probe:
        """Raises ConformanceFinding when captured operands do not give the captured results."""
        (native,) = prefill(decoder, [prompt])
        before = native.fork()
        (result,) = advance(decoder, [native], [kernels.Intervention(capture=(*STEP_CAPTURES, *FORK_CAPTURES))])
        fork = Fork.of(result, layer)
        fork.require_native(where)
        return cls(decoder, layer, before, result.token, fork, Classes.enumerate(fork, where))

    def order(self, structural_class: int) -> int:
        """The order injected for a class: its lower lexicographic rank."""
        return self.classes.orders[structural_class][0]

    def aggregation(self, structural_class: int) -> dict[int, tuple[Literal["B"], int]]:
        return {self.layer: ("B", self.order(structural_class))}

    def by_linf(self) -> list[int]:
        """Classes, the farthest from native first, the lower of equals first."""
        return [int(one) for one in np.argsort(-self.classes.linf_stream, kind="stable")]

    def separating(self, decode_inputs: int) -> Iterator[int]:
        """Classes, ascending, whose tokens separate from native within so many decode inputs; computed as they are asked for."""
        native = self.before.fork()
        while len(native.tokens) <= decode_inputs:
            advance(self.decoder, [native])
        count = len(self.classes.orders)
        for first in range(0, count, CLASSES_AT_ONCE):
            chunk = range(first, min(first + CLASSES_AT_ONCE, count))
            branches = [self.before.fork() for _ in chunk]
            advance(
                self.decoder,
                branches,
                [kernels.Intervention(aggregation=self.aggregation(one), capture=STEP_CAPTURES) for one in chunk],
            )
            while len(branches[0].tokens) <= decode_inputs:
                advance(self.decoder, branches)
            yield from (one for one, branch in zip(chunk, branches, strict=True) if branch.tokens != native.tokens)


@dataclass(frozen=True)
class Choice:
    """The class that is the branch. chosen_by: named, first_separating, max_linf. passed_over: why not a preferred one, or ""."""

    structural_class: int
    chosen_by: str
    passed_over: str


def choose(probe: Probe, unit: Unit, unusable: Callable[[int], str]) -> Choice:
    """The first class, in the order that the job's fork says, that can serve.

    unusable: why a class cannot serve, or "". Raises InvalidInput when none can: then the control cannot be made at this fork.
    """
    passed: list[str] = []
    for structural_class, chosen_by in _preferred(probe, unit):
        reason = unusable(structural_class)
        if not reason:
            more = f" (and {len(passed) - 1} more)" if len(passed) > 1 else ""
            return Choice(structural_class, chosen_by, passed[0] + more if passed else "")
        passed.append(f"class {structural_class}: {reason}")
    raise InvalidInput(
        f"prompt {unit.prompt_id}", "fork", f"no class that can serve; {passed[0]}", "a layer and prompt with a usable class"
    )


def _preferred(probe: Probe, unit: Unit) -> Iterator[tuple[int, str]]:
    fork = unit.meaning["parameters"]["fork"]
    if fork["structural_class"] is not None:
        yield int(fork["structural_class"]), "named"
    if fork["select"] == "first_separating":
        yield from ((one, "first_separating") for one in probe.separating(unit.meaning["parameters"]["decode_inputs"]))
    yield from ((one, "max_linf") for one in probe.by_linf())


def literal_delta(before: F32, after: F32) -> F32:
    """The FP32 difference of two endpoints, to be added literally (study 2.4.2).

    Where the bits are equal it is -0, the only number whose addition changes no bits, those of -0 included.
    """
    with np.errstate(invalid="ignore"):  # -inf less -inf, where both are equal and the difference is not used
        difference = np.subtract(after, before, dtype=np.float32)
    return np.where(equal_bits(before, after), np.float32(-0.0), difference).astype(np.float32)


def wide_delta(before: F32, after: F32) -> F64:
    """The FP64 difference of two FP32 states (study 2.4.3), -0 where the bits are equal, unwritten -inf slots included."""
    with np.errstate(invalid="ignore"):
        difference = after.astype(np.float64) - before.astype(np.float64)
    return np.where(equal_bits(before, after), -0.0, difference)


def rebuilt(before: F32, delta: F32 | F64) -> F32:
    """What literal addition in the delta's precision, cast to FP32, makes of `before`.

    In no precision is every endpoint reached: x + (-x) is +0, so a -0 where native has another value is out of reach.
    """
    with np.errstate(over="ignore"):
        return np.add(before, delta, dtype=delta.dtype).astype(np.float32, copy=False)


def equal_bits(a: F32, b: F32) -> npt.NDArray[np.bool_]:
    """Where two FP32 arrays have equal bits."""
    equal: npt.NDArray[np.bool_] = np.ascontiguousarray(a).view(np.uint32) == np.ascontiguousarray(b).view(np.uint32)
    return equal


def linf(a: F32, b: F32) -> float:
    """Largest absolute FP32 difference; 0 where bits are equal, -inf included."""
    with np.errstate(invalid="ignore"):
        return float(np.where(equal_bits(a, b), np.float32(0), np.abs(a - b)).max(initial=0))


def fork_columns(unit: Unit, probe: Probe, choice: Choice) -> dict[str, Any]:
    """Columns of a substitution's row that say what was forked and which class is the branch."""
    named = ("prompt_sha256", "language", "kind", "checkpoint_identity", "tokenizer_identity", "numerics")
    return {name: unit.meaning[name] for name in named} | {
        "prompt_id": unit.prompt_id,
        "prompt_token_ids": probe.before.prompt,
        "decode_inputs": unit.meaning["parameters"]["decode_inputs"],
        "fork_layer": probe.layer,
        "fork_position": len(probe.before.prompt),
        "fork_token": probe.before.tokens[0],
        "fork_experts": probe.fork.experts.tolist(),
        "structural_classes": len(probe.classes.orders),
        "structural_class": choice.structural_class,
        "branch_order": probe.order(choice.structural_class),
        "chosen_by": choice.chosen_by,
        "passed_over": choice.passed_over,
        "unit_key": unit.key,
    }


def behaviour_columns(session: Session, native: Recording, branch: Recording, substituted: Recording) -> dict[str, Any]:
    """Columns that say what an observer of tokens and text sees of the three executions."""
    columns: dict[str, Any] = {}
    for name, recording in (("native", native), ("branch", branch), ("substituted", substituted)):
        tokens = recording.trajectory.tokens
        columns |= {
            f"{name}_token_ids": tokens,
            f"{name}_token_sha256": tokens_sha256(tokens),
            f"{name}_text": session.tokenizer.decode(tokens),
        }
    pairs = zip(native.trajectory.tokens, branch.trajectory.tokens, strict=True)
    differing = [ordinal for ordinal, (a, b) in enumerate(pairs, start=1) if a != b]
    pairs = zip(branch.trajectory.tokens, substituted.trajectory.tokens, strict=True)
    equal = [a == b for a, b in pairs]
    return columns | {
        "predictions_compared": len(equal),
        "predictions_equal": sum(equal),
        "separated": bool(differing),
        "first_difference": differing[0] if differing else None,
    }


def require_stream(probe: Probe, choice: Choice, branch: Recording, where: str) -> None:
    """Raises ConformanceFinding unless the injected branch has the endpoint that the enumeration has for its class."""
    selected = choice.structural_class
    require_enumerated(branch.post_mhc[0][probe.layer], probe.classes.streams[selected], where, f"class {selected}")


def inequalities(row: Mapping[str, Any], pairs: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    """What a control's row has otherwise than it must. pairs: X of X_compared and X_equal. counts: X_compared by the formulas."""
    lines = []
    for pair in pairs:
        compared, equal = row[f"{pair}_compared"], row[f"{pair}_equal"]
        if compared != counts[pair]:
            lines.append(f"{pair.replace('_', ' ')}: {compared} compared instead of {counts[pair]}")
        if equal != compared:
            lines.append(f"{pair.replace('_', ' ')}: {equal} of {compared} are equal")
    for column in ("token_ids", "text"):
        if row[f"branch_{column}"] != row[f"substituted_{column}"]:
            lines.append(f"{column}: the branch has {row[f'branch_{column}']!r}, substituted {row[f'substituted_{column}']!r}")
    return lines
