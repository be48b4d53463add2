"""Typed contract of the compiled decoder; "reference" and "study" are explained in docs/reference.md.

Shapes are row-major. k = num_experts_per_tok, E = n_routed_experts, D = hidden_size, hc = hc_mult, V = vocab_size.
Nothing here prints, logs or reads the environment except RUNNER_ISA (see `instruction_set`).
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]

Numerics = Literal["official", "fp32"]
Scheme = Literal["native", "P32", "C", "A", "B"]

BUILD_ID: str
"""SHA-256 over the compiled sources and compiler flags; two hosts with equal ids run equal arithmetic."""

def cpu_features() -> dict[str, bool]:
    """The features dispatch looks at: {"avx2", "fma", "avx512f", ...} -> present on this CPU."""

InstructionSet = Literal["scalar", "avx2", "avx512", "avx512_bf16"]

def instruction_set() -> InstructionSet:
    """The kernels in use: the fastest this CPU has, or what RUNNER_ISA forces. Changes no bit, only speed."""

def instruction_sets() -> list[InstructionSet]:
    """Those that this CPU can run, the scalar ones first: what RUNNER_ISA may be here."""

class KernelError(Exception):
    """Base of what this package raises on purpose."""

class CheckpointError(KernelError):
    """A checkpoint that cannot be used. One fault, the first found.

    Attributes: `file` (path), `key` (tensor name or JSON key path, may be ""), `found`, `allowed`; str() is one line.
    """

    file: str
    key: str
    found: str
    allowed: str

class InterventionError(KernelError):
    """A row asks for what the decoder cannot do: unknown scheme or capture, order or layer out of range, bad route."""

class StateMismatch(KernelError):
    """Bits required before or after a delta are not the bits found (study 2.4.2, 2.4.3)."""

class Config:
    """config.json of the official layout, validated; attribute names are the official keys."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    head_dim: int
    qk_rope_head_dim: int
    q_lora_rank: int
    o_lora_rank: int
    o_groups: int
    n_routed_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    routed_scaling_factor: float
    swiglu_limit: float
    num_hash_layers: int
    sliding_window: int
    compress_ratios: tuple[int, ...]  # one per layer, without the MTP entry
    compress_rope_theta: float
    rope_theta: float
    yarn_factor: float
    yarn_original_max_position_embeddings: int
    yarn_beta_fast: float
    yarn_beta_slow: float
    max_position_embeddings: int
    index_n_heads: int
    index_head_dim: int
    index_topk: int
    hc_mult: int
    hc_sinkhorn_iters: int
    hc_eps: float
    rms_norm_eps: float
    bos_token_id: int
    eos_token_id: int
    num_nextn_predict_layers: int

class Checkpoint:
    """A directory in the official layout, memory-mapped read-only. Weights are never modified or copied whole."""

    @staticmethod
    def open(directory: str | PathLike[str]) -> Checkpoint:
        """Map every shard and check config, index, headers, offsets, dtypes, shapes and tensor names; read no payload.

        Raises CheckpointError with the first fault.
        """
    directory: str
    config: Config
    tensor_count: int  # tensors in the index, mtp.* included
    skipped_tensor_count: int  # mtp.*
    total_bytes: int  # payload of all tensors
    dtype_counts: dict[str, int]  # safetensors tag -> tensors
    shards: list[tuple[str, int]]  # (file name, length in bytes), sorted by name
    identity: str
    """SHA-256 (hex) over config.json, tokenizer.json if present, the index, and each shard's header and length."""

    def content_digest(self) -> str:
        """SHA-256 (hex) over the same files read whole; hours on a real checkpoint, so on demand only."""

def state_value_count(config: Config, position: int) -> int:
    """Values in the canonical state after `position` (0-based) has been processed; reference section 11."""

class State:
    """Attention state of one sequence (reference section 11). Cheap to fork: layers are shared until one goes through them.

    While a step has it, no other thread may use it. Its forks are states of their own, which other threads and decoders may use
    meanwhile.
    """

    position: int
    """Tokens processed so far, which is the position of the next token. The study's "state at position p" has position p+1."""

    def fork(self) -> State: ...
    def value_count(self) -> int: ...
    def values(self) -> F32:
        """Canonical values, FP32, in layer order; within a layer: window, rows, kv_state, score_state, index rows,
        index kv_state, index score_state.
        """
    def layout(self) -> list[tuple[int, str, int, tuple[int, int]]]:
        """(layer, component, offset into values(), (rows, width)) for each component, in order."""
    def serialise(self) -> bytes:
        """Header (magic, format version, numerics, position, count, checkpoint identity) and little-endian FP32 values."""
    def sha256(self) -> str:
        """SHA-256 (hex) of serialise()."""
    def add_delta(self, delta: npt.NDArray[np.float64] | F32, before: F32, after: F32) -> None:
        """Add a canonical-order delta in the delta's own precision, cast to FP32 (study 2.4.3).

        Where `before` and `after` have equal bits the value is kept (so -inf slots stay). Raises StateMismatch, leaving the
        state as it was, when the state's bits differ from `before`, or the sum's bits from `after`.
        """

class StepResult:
    """What one row gave."""

    token: int  # argmax of the last token's logits, lowest id on a tie
    logits: F32  # [V], of the row's last token
    captures: dict[str, npt.NDArray[np.generic]]
    """Captured arrays, first axis the row's tokens T, second the captured layers in ascending order (none for logits and
    logit_margin):

    route int32 [T,n,k] router order · route_weights [T,n,k] · router_scores [T,n,E] unbiased · router_margin [T,n]
    selection-score gap between ranks k and k+1, inf in hash layers · moe_terms [T,n,k,D] FP32, router order, gate applied ·
    moe_shared [T,n,D] ·
    moe_output [T,n,D] · post_attention [T,n,hc,D] streams before the FFN · ffn_post [T,n,hc], ffn_comb [T,n,hc,hc] the mHC mix ·
    post_mhc [T,n,hc,D] · index_rows int32 [T,n,index_topk] score order, -1 padded (ratio-4 layers; others all -1) ·
    index_margin [T,n] score gap at the cut, inf where nothing is cut · logits [T,V] · logit_margin [T] rank 1 minus rank 2.
    """

CAPTURES: frozenset[str]
"""Names that Intervention.capture may hold."""

class Decoder:
    """A DeepSeek-V4 decoder over one checkpoint. Calls from several threads take turns; the GIL is released inside.

    More than 62 threads have nothing to do.
    """

    def __init__(self, checkpoint: Checkpoint, *, threads: int = 1, numerics: Numerics = "official") -> None: ...
    checkpoint: Checkpoint
    threads: int
    numerics: Numerics
    def new_state(self) -> State: ...
    def restore(self, data: bytes) -> State:
        """Inverse of State.serialise(). Raises KernelError for bytes of another checkpoint, numerics mode or format."""
    def step(self, rows: Sequence[Row]) -> list[StepResult]:
        """Run B rows, each advancing its own state by its own T >= 1 tokens; weights are read once for all.

        A row's bits depend on its own state, tokens and intervention only. A row's intervention holds for all its tokens. The
        same State may not stand in two rows. On any error no state has changed.
        """

class Row:
    """One row of a step: tokens to feed to a state, and what to change or capture while they pass."""

    def __init__(self, state: State, tokens: Sequence[int], intervention: Intervention | None = None) -> None: ...
    state: State
    tokens: list[int]
    intervention: Intervention | None

class PostMhcDelta:
    """Literal FP32 addition to the post-mHC streams of one layer (study 2.4.2); `before` and `after` are required bitwise.

    delta, before, after: float32 [hc, D]. The row must feed exactly one token.
    """

    def __init__(self, layer: int, delta: F32, before: F32, after: F32) -> None: ...

class Intervention:
    """What a row changes and captures. All of it is data; the empty one is the native reference.

    aggregation: layer -> (scheme, order), order a lexicographic rank 0..k!-1 of the router-ordered terms; "native" takes order 0.
    routes: layer -> k distinct expert ids, replacing the router's choice; gate weights come from the router's scores of these.
    capture: names from CAPTURES. capture_layers: None for all.
    """

    def __init__(
        self,
        *,
        aggregation: Mapping[int, tuple[Scheme, int]] | None = None,
        post_mhc_delta: PostMhcDelta | None = None,
        routes: Mapping[int, Sequence[int]] | None = None,
        capture: Sequence[str] = (),
        capture_layers: Sequence[int] | None = None,
    ) -> None: ...

def permutation(rank: int, k: int = 6) -> tuple[int, ...]:
    """The permutation of 0..k-1 with this lexicographic rank."""

def structural_classes(k: int = 6) -> list[tuple[int, int]]:
    """Scheme B's classes (study 2.6): pairs of ranks that differ only in their first two terms; 360 for k = 6."""

def aggregate(terms: F32, shared: F32, scheme: Scheme, orders: Sequence[int], *, expert_ids: Sequence[int] | None = None) -> F32:
    """MoE output for each order (study 2.5): terms [k,D] in router order, shared [D] -> [len(orders), D].

    The same code that the decoder runs, in official numerics. "native" needs expert_ids (ascending id is its order).
    """

def hc_post(outputs: F32, residual: F32, post: F32, comb: F32) -> F32:
    """Post-mHC streams (reference section 5) of outputs [n,D] over residual [hc,D], post [hc], comb [hc,hc] -> [n,hc,D].

    hc is 8 at most and D a multiple of 16; InterventionError otherwise.
    """
