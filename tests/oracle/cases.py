"""Checkpoints with what is needed to test a decoder on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import kernels
from oracle.checkpoint_files import Tensors, Weights, read_checkpoint, write_checkpoint
from oracle.geometry import SMALL, Dtype, Geometry
from oracle.make_vectors import SEED
from oracle.random_checkpoint import random_prompt, random_tensors
from oracle.step_decoder import Step, StepDecoder


@dataclass(frozen=True)
class Case:
    """One checkpoint directory, and its tensors as this package reads them."""

    geometry: Geometry
    directory: Path
    tensors: Tensors

    @cached_property
    def weights(self) -> Weights:
        return Weights(self.tensors)

    def decoder(self, numerics: Literal["official", "fp32"] = "official", threads: int = 1) -> kernels.Decoder:
        return kernels.Decoder(kernels.Checkpoint.open(self.directory), numerics=numerics, threads=threads)

    def tokens(self, length: int, seed: int = SEED) -> list[int]:
        return random_prompt(self.geometry, seed, length)

    def numpy_steps(self, tokens: Sequence[int], *, official: bool, kind: type[StepDecoder] = StepDecoder) -> list[Step]:
        """What the numpy decoder, or a variant of it, makes of the tokens."""
        decoder = kind(self.geometry, self.weights, official=official)
        return [decoder.step(token) for token in tokens]


def existing_case(directory: Path) -> Case:
    return Case(Geometry.of_checkpoint(directory), directory, read_checkpoint(directory))


def random_case(directory: Path, dtype: Dtype, geometry: Geometry, changes: Tensors | None = None, seed: int = SEED) -> Case:
    """Write a random checkpoint, some of its tensors replaced."""
    tensors = random_tensors(geometry, dtype, seed) | (changes or {})
    return Case(geometry, write_checkpoint(directory, geometry, dtype, tensors), tensors)


def small_case(dtype: Dtype, directory: Path) -> Case:
    return random_case(directory, dtype, SMALL)


def short(geometry: Geometry, ratios: tuple[int, ...], **changes: Any) -> Geometry:
    """The geometry with other layers, none of them hashed unless asked for; for a test of one stage."""
    return replace(geometry, **({"compress_ratios": ratios, "num_hash_layers": 0} | changes))


def captured(
    decoder: kernels.Decoder, tokens: Sequence[int], names: Sequence[str], state: kernels.State | None = None
) -> dict[str, npt.NDArray[Any]]:
    """Captures of one row that feeds all tokens, to a fresh state unless one is given."""
    row = kernels.Row(state or decoder.new_state(), list(tokens), kernels.Intervention(capture=names))
    return decoder.step([row])[0].captures


def greedy(decoder: kernels.Decoder, prompt: Sequence[int], generate: int) -> list[int]:
    """Prompt and `generate` chosen ids; the last is not processed."""
    state, ids = decoder.new_state(), list(prompt)
    (result,) = decoder.step([kernels.Row(state, ids)])
    while len(ids) < len(prompt) + generate - 1:
        ids.append(result.token)
        (result,) = decoder.step([kernels.Row(state, [ids[-1]])])
    return [*ids, result.token]


def trace(steps: Sequence[Step], name: str) -> npt.NDArray[Any]:
    """One quantity of the numpy decoder over T steps and L layers, stacked."""
    return np.array([[getattr(layer, name) for layer in step.layers] for step in steps])
