"""Make the reference vectors that the decoder is tested against.

    PYTHONPATH=tests python -m oracle.make_vectors small            # vectors/small_*.npz; needs torch and transformers
    PYTHONPATH=tests python -m oracle.make_vectors mote CHECKPOINT  # vectors/mote_*.npz; needs tokenizers
    PYTHONPATH=tests python -m oracle.make_vectors full DIRECTORY   # each dtype's checkpoint and vectors; needs both of the first

Arrays, with T processed positions, L layers, V ids, k experts a token:

    ids[T+1] prompt_length                        prompt and greedy continuation; the last id is not processed
    transformers_logits[T,V]                      float64, one pass
    routes[T,L,k] route_weights[T,L,k]            router order
    router_margin[T,L] index_margin[T,L]          score gaps at the cut; inf where nothing is cut
    index_rows[T,L,index_topk]                    score order, -1 padded; all -1 without an indexer
    logits[T,V] streams[.,L,hc,D]                 streams after each layer
    state                                         canonical values after the last position

Names of the exact numpy run start with `exact_`, of the official one with `official_`; `official_unpadded_` counts attention
blocks without the unwritten window slots. The embedded checkpoint's ids have T entries: the last is processed too.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oracle import checkpoint_files
from oracle.checkpoint_files import Tensors, Weights, read_checkpoint, write_checkpoint
from oracle.formats import F64, bf16_bits
from oracle.geometry import DTYPES, FULL, SMALL, Dtype, Geometry
from oracle.random_checkpoint import random_prompt, random_tensors
from oracle.step_decoder import Step, StepDecoder

Arrays = dict[str, npt.NDArray[Any]]

VECTORS = Path(__file__).parent / "vectors"
SEED = 1
SMALL_PROMPT, SMALL_GENERATED = 24, 12
FULL_PROMPT, FULL_GENERATED = 70, 40
MOTE_GENERATED = 20
MOTE_TEXTS = {"sheep": "why the sheep", "friend": "朋友昨天打来电话", "morning": "Morning light filled the room"}
"""The study's three depth prompts (study 2.4)."""
STREAM_POSITIONS = (3, 34)
"""Where the small vectors keep the streams of every layer: at the first compressed row, and at the last token."""
STATE_STRIDE = 31
"""The vectors of the embedded checkpoint keep every 31st value of the state, and a digest of all."""


def arrays_of(geometry: Geometry, steps: Sequence[Step]) -> Arrays:
    """Stack what T steps gave."""

    def rows(step: Step) -> npt.NDArray[np.int16]:
        padded = np.full((len(step.layers), geometry.index_topk), -1, np.int16)
        for layer, trace in enumerate(step.layers):
            padded[layer, : len(trace.index_rows)] = trace.index_rows
        return padded

    def stack(name: str) -> npt.NDArray[Any]:
        return np.array([[getattr(trace, name) for trace in step.layers] for step in steps])

    return {
        "logits": np.stack([step.logits for step in steps]),
        "streams": stack("post_mhc").astype(np.float32),
        "routes": stack("route").astype(np.int16),
        "route_weights": stack("route_weights").astype(np.float32),
        "router_margin": stack("router_margin"),
        "index_rows": np.stack([rows(step) for step in steps]),
        "index_margin": stack("index_margin"),
    }


def numpy_run(geometry: Geometry, weights: Weights, ids: Sequence[int], *, official: bool, pad_window: bool = True) -> Arrays:
    """Teacher-forced run over ids, and the state after them."""
    decoder = StepDecoder(geometry, weights, official=official, pad_window=pad_window)
    arrays = arrays_of(geometry, [decoder.step(token) for token in ids])
    return arrays | {"state": decoder.state.values()}


def numpy_greedy(geometry: Geometry, weights: Weights, prompt: Sequence[int], generate: int, *, pad_window: bool) -> Arrays:
    """Official run that feeds itself: `generate` ids, all of them processed."""
    decoder = StepDecoder(geometry, weights, official=True, pad_window=pad_window)
    ids, steps = list(prompt), []
    while len(steps) < len(prompt) + generate:
        if len(steps) == len(ids):
            ids.append(int(np.argmax(steps[-1].logits)))
        steps.append(decoder.step(ids[len(steps)]))
    return arrays_of(geometry, steps) | {"state": decoder.state.values(), "ids": np.array(ids)}


def transformers_run(geometry: Geometry, tensors: Tensors, prompt: Sequence[int], generate: int) -> tuple[list[int], Arrays]:
    """Greedy ids in float32, the whole prefix passed again for every token, and one float64 pass over what was processed.

    Raises ValueError when float32 and float64 disagree about an id or a route: such vectors would test luck.
    """
    from oracle.transformers_reference import TransformersReference

    single = TransformersReference(geometry, tensors, double=False)
    ids = list(prompt)
    for _ in range(generate):
        ids.append(int(single(ids).logits[-1].argmax()))
    processed = ids[:-1]
    last, exact = single(processed), TransformersReference(geometry, tensors, double=True)(processed)
    if exact.logits.dtype != np.float64:
        raise ValueError(f"float64 pass came back as {exact.logits.dtype}")
    if exact.logits[len(prompt) - 1 :].argmax(-1).tolist() != ids[len(prompt) :]:
        raise ValueError("float32 and float64 choose different ids")
    if not np.array_equal(last.routes, exact.routes):
        raise ValueError("float32 and float64 choose different experts")
    arrays: Arrays = {
        "transformers_logits": exact.logits,
        "transformers_routes": exact.routes,
        "transformers_streams": exact.streams,
        "float32_error": np.array(np.abs(last.logits - exact.logits).max()),
    }
    arrays.update({f"transformers_index_rows_{layer}": rows for layer, rows in exact.index_rows.items()})
    return ids, arrays


def check_agreement(geometry: Geometry, exact: Arrays, reference: Arrays) -> dict[str, float]:
    """Largest differences of the exact numpy run from transformers in float64. Raises ValueError unless both are one function."""
    logits = float(np.abs(exact["logits"] - reference["transformers_logits"]).max())
    streams = float(np.abs(exact["streams"] - reference["transformers_streams"]).max())
    if logits > 1e-10:
        raise ValueError(f"numpy and transformers differ by {logits} in logits")
    if not np.array_equal(np.sort(exact["routes"], -1), reference["transformers_routes"]):
        raise ValueError("numpy and transformers choose different experts")
    for layer, ratio in enumerate(geometry.compress_ratios):
        if ratio == 4:
            theirs = reference[f"transformers_index_rows_{layer}"]
            for position, ours in enumerate(exact["index_rows"][:, layer]):
                if set(ours[ours >= 0]) != set(theirs[position][theirs[position] >= 0]):
                    raise ValueError(f"numpy and transformers read different rows: position {position}, layer {layer}")
    return {"logits": logits, "streams": streams}


def random_vectors(geometry: Geometry, dtype: Dtype, prompt_length: int, generate: int) -> tuple[Tensors, Arrays]:
    """Checkpoint and all vectors of one dtype. The official run exists only where activations are BF16."""
    tensors = random_tensors(geometry, dtype, SEED)
    ids, arrays = transformers_run(geometry, tensors, random_prompt(geometry, SEED, prompt_length), generate)
    weights = Weights(tensors)
    exact = numpy_run(geometry, weights, ids[:-1], official=False)
    worst = check_agreement(geometry, exact, arrays)
    spread = _spread(geometry, exact, ids, prompt_length)
    print(f"{dtype}: float32 error {arrays['float32_error']:.2e}, numpy error {worst['logits']:.1e}, {spread}")
    arrays.update({f"exact_{name}": value for name, value in exact.items()})
    if dtype != "float32":
        official = numpy_run(geometry, weights, ids[:-1], official=True)
        arrays.update({f"official_{name}": value for name, value in official.items()})
    arrays.update(ids=np.array(ids), prompt_length=np.array(prompt_length), checkpoint=np.array(checkpoint_files.sha256(tensors)))
    return tensors, arrays


def _spread(geometry: Geometry, exact: Arrays, ids: Sequence[int], prompt_length: int) -> str:
    """Describe how far from degenerate the model is. Raises ValueError where it is."""
    logits: F64 = exact["logits"]
    if logits.std(0).mean() < 0.3:
        raise ValueError("logits hardly depend on the token")
    entropies = []
    for layer in range(geometry.num_hidden_layers):
        chosen = exact["routes"][:, layer].ravel()
        share = np.bincount(chosen, minlength=geometry.n_routed_experts) / chosen.size
        entropies.append(-np.sum(share * np.log(np.maximum(share, 1e-300))) / np.log(geometry.n_routed_experts))
    if min(entropies) < 0.6:
        raise ValueError(f"experts are hardly used: entropies {entropies}")
    two = np.sort(logits[prompt_length - 1 :], -1)[:, -2:]
    return (
        f"least margins: argmax {np.min(two[:, 1] - two[:, 0]):.1e}, router {exact['router_margin'].min():.1e}, "
        f"index {exact['index_margin'].min():.1e}; {len(set(ids[prompt_length:]))} distinct ids"
    )


def small_vectors(dtype: Dtype) -> Arrays:
    """The committed excerpt of the small checkpoint's vectors."""
    _, arrays = random_vectors(SMALL, dtype, SMALL_PROMPT, SMALL_GENERATED)
    kept = ["ids", "prompt_length", "checkpoint", "transformers_logits"]
    kept += [f"exact_{name}" for name in ("routes", "router_margin", "index_rows", "index_margin")]
    excerpt = {name: arrays[name] for name in kept}
    excerpt["exact_streams"] = arrays["exact_streams"][list(STREAM_POSITIONS)]
    if dtype != "float32":
        for name in ("routes", "route_weights", "index_rows"):
            excerpt[f"official_{name}"] = arrays[f"official_{name}"]
        excerpt["official_logits"] = arrays["official_logits"].astype(np.float32)
        excerpt["official_streams"] = bf16_bits(arrays["official_streams"][list(STREAM_POSITIONS)])
        excerpt["official_layer0_streams"] = bf16_bits(arrays["official_streams"][:, 0])
    return excerpt


def mote_vectors(geometry: Geometry, tensors: Tensors, prompt: Sequence[int]) -> Arrays:
    """The committed excerpt of an official run of the embedded checkpoint, with and without padded attention blocks."""
    weights = Weights(tensors)
    excerpt: Arrays = {"prompt_length": np.array(len(prompt)), "checkpoint": np.array(checkpoint_files.sha256(tensors))}
    for name, pad_window in (("official", True), ("official_unpadded", False)):
        run = numpy_greedy(geometry, weights, prompt, MOTE_GENERATED, pad_window=pad_window)
        for kept in ("ids", "routes", "route_weights"):
            excerpt[f"{name}_{kept}"] = run[kept]
        excerpt[f"{name}_router_margin"] = run["router_margin"].astype(np.float32)
        excerpt[f"{name}_top_logits"] = np.sort(run["logits"], -1)[:, :-9:-1].astype(np.float32)
        excerpt[f"{name}_state"] = run["state"][::STATE_STRIDE]
        excerpt[f"{name}_state_sha256"] = np.array(hashlib.sha256(run["state"].tobytes()).hexdigest())
    return excerpt


def full_vectors(dtype: Dtype, directory: Path) -> Path:
    """Write the full check's checkpoint and vectors.npz of one dtype under `directory`; takes a minute."""
    tensors, arrays = random_vectors(FULL, dtype, FULL_PROMPT, FULL_GENERATED)
    write_checkpoint(directory, FULL, dtype, tensors)
    np.savez(directory / "vectors.npz", **arrays)
    return directory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["small", "mote", "full"])
    parser.add_argument("path", type=Path, nargs="?", help="mote: its checkpoint; full: where to write")
    options = parser.parse_args()
    if options.what != "small" and options.path is None:
        parser.error(f"{options.what} needs a path")
    VECTORS.mkdir(exist_ok=True)
    if options.what == "small":
        for dtype in DTYPES:
            np.savez_compressed(VECTORS / f"small_{dtype}.npz", **small_vectors(dtype))
    elif options.what == "full":
        for dtype in DTYPES:
            full_vectors(dtype, options.path / dtype)
    else:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(options.path / "tokenizer.json"))
        geometry, tensors = Geometry.of_checkpoint(options.path), read_checkpoint(options.path)
        for name, text in MOTE_TEXTS.items():
            np.savez_compressed(VECTORS / f"mote_{name}.npz", **mote_vectors(geometry, tensors, tokenizer.encode(text).ids))


if __name__ == "__main__":
    main()
