"""Plays a fuzz case in one of two ways: every row alone on one thread, or all rows of a round in one step.

What each row gave is told as a digest of each of its parts. Alone, forks are copies by way of the serialised form, and prompts
are fed whole; together, forks are forks, and prompts are fed in chunks, whoever still has tokens in one step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from fuzz_case import Case, Change, Turn
from fuzz_models import Model
from rows import tokens

import kernels

Digests = dict[str, str]
"""Part of a row's result (token, logits, each capture, state) -> digest."""


class Player:
    """One process's decoders on one model. alone: how it plays."""

    def __init__(self, model: Model, *, alone: bool) -> None:
        self.model = model
        self.alone = alone
        self._checkpoint = kernels.Checkpoint.open(model.directory)
        self._decoders: dict[tuple[str, int], kernels.Decoder] = {}
        self._prompts: dict[tuple[str, tuple[int, int]], kernels.State] = {}

    def play(self, case: Case) -> dict[str, Digests]:
        """ "round.row" -> what the row gave in that round."""
        decoder = self._decoder(case.numerics, 1 if self.alone else case.threads)
        states = self._started_alone(case, decoder) if self.alone else _started_together(case, decoder, self.model)
        found: dict[str, Digests] = {}
        for number, turns in enumerate(case.rounds):
            for turn in turns:
                parent = case.starts[turn.row].parent
                if turn.row not in states and parent is not None:
                    states[turn.row] = self._fork(decoder, _ancestor(case, states, parent))
                if turn.copied:
                    states[turn.row] = decoder.restore(states[turn.row].serialise())
            rows = _rows(decoder, states, turns)
            results = [decoder.step([row])[0] for row in rows] if self.alone else decoder.step(rows)
            for turn, result in zip(turns, results, strict=True):
                if turn.state_delta is not None:
                    _add_random_delta(states[turn.row], turn.state_delta)
                found[f"{number}.{turn.row}"] = _digests(result, states[turn.row])
        return found

    def _decoder(self, numerics: kernels._kernels.Numerics, threads: int) -> kernels.Decoder:
        if (numerics, threads) not in self._decoders:
            self._decoders[numerics, threads] = kernels.Decoder(self._checkpoint, numerics=numerics, threads=threads)
        return self._decoders[numerics, threads]

    def _fork(self, decoder: kernels.Decoder, state: kernels.State) -> kernels.State:
        return decoder.restore(state.serialise()) if self.alone else state.fork()

    def _started_alone(self, case: Case, decoder: kernels.Decoder) -> dict[int, kernels.State]:
        states = {}
        for row, start in enumerate(case.starts):
            if start.parent is not None:
                continue
            key = (case.numerics, start.prompt)
            if key not in self._prompts:
                self._prompts[key] = decoder.new_state()
                decoder.step([kernels.Row(self._prompts[key], _prompt(self.model, start.prompt))])
            states[row] = decoder.restore(self._prompts[key].serialise())
        return states


def _started_together(case: Case, decoder: kernels.Decoder, model: Model) -> dict[int, kernels.State]:
    states = {row: decoder.new_state() for row, start in enumerate(case.starts) if start.parent is None}
    left = {row: _prompt(model, case.starts[row].prompt) for row in states}
    while any(left.values()):
        going = [row for row in states if left[row]]
        decoder.step([kernels.Row(states[row], left[row][: case.starts[row].chunk]) for row in going])
        for row in going:
            left[row] = left[row][case.starts[row].chunk :]
    return states


def _prompt(model: Model, prompt: tuple[int, int]) -> list[int]:
    length, seed = prompt
    return [token % model.config.vocab_size for token in tokens(length, seed)]


def _ancestor(case: Case, states: dict[int, kernels.State], row: int) -> kernels.State:
    """The nearest ancestor that has a state: a parent may come later in the round than its child."""
    while row not in states:
        parent = case.starts[row].parent
        assert parent is not None
        row = parent
    return states[row]


def _rows(decoder: kernels.Decoder, states: dict[int, kernels.State], turns: Sequence[Turn]) -> list[kernels.Row]:
    """Rows that are changed alike from equal states share the object that says so, which only then is one for a step."""
    made: dict[tuple[int, tuple[int, ...], str], kernels.Intervention] = {}
    rows = []
    for turn in turns:
        state = states[turn.row]
        key = id(turn.change), turn.tokens, state.sha256()
        if key not in made:
            made[key] = _intervention(decoder, state, turn)
        rows.append(kernels.Row(state, turn.tokens, made[key]))
    return rows


def _intervention(decoder: kernels.Decoder, state: kernels.State, turn: Turn) -> kernels.Intervention:
    change = turn.change
    delta = None
    if change.post_mhc is not None:
        layer, seed = change.post_mhc
        probe = kernels.Row(
            decoder.restore(state.serialise()), turn.tokens, _kernels_intervention(change, ("post_mhc",), [layer], None)
        )
        before = np.array(decoder.step([probe])[0].captures["post_mhc"][0, 0], np.float32)
        added = _sparse_noise(seed, before, np.float32)
        delta = kernels.PostMhcDelta(layer, added, before, before + added)
    return _kernels_intervention(change, change.captures, change.capture_layers, delta)


def _kernels_intervention(
    change: Change, captures: Sequence[str], layers: Sequence[int] | None, delta: kernels.PostMhcDelta | None
) -> kernels.Intervention:
    return kernels.Intervention(
        aggregation=change.aggregation, routes=change.routes, capture=captures, capture_layers=layers, post_mhc_delta=delta
    )


def _add_random_delta(state: kernels.State, seed: int) -> None:
    before = np.array(state.values())
    delta = _sparse_noise(seed, before, np.float64 if seed % 2 else np.float32)
    after = (before.astype(delta.dtype) + delta).astype(np.float32)
    state.add_delta(delta, before, after)


def _sparse_noise(seed: int, values: npt.NDArray[np.float32], dtype: type[np.floating]) -> npt.NDArray[np.floating]:
    """Noise of the values' own size in a tenth of the finite places, zero elsewhere."""
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal(values.shape) * (generator.random(values.shape) < 0.1) * 0.1
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(values), noise * values, 0).astype(dtype)


def _digests(result: kernels.StepResult, state: kernels.State) -> Digests:
    parts = {"token": str(result.token).encode(), "logits": result.logits.tobytes(), "state": state.serialise()}
    parts |= {name: array.tobytes() for name, array in result.captures.items()}
    return {name: hashlib.sha256(part).hexdigest()[:16] for name, part in parts.items()}
