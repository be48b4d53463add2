"""The DeepSeek-V4 text decoder: a C++ core over a memory-mapped checkpoint, and this face of it.

The contract of every name is in `_kernels.pyi`.
"""

from pathlib import Path

from kernels._kernels import (
    BUILD_ID,
    CAPTURES,
    Checkpoint,
    CheckpointError,
    Config,
    Decoder,
    Intervention,
    InterventionError,
    KernelError,
    PostMhcDelta,
    Row,
    State,
    StateMismatch,
    StepResult,
    aggregate,
    cpu_features,
    hc_post,
    instruction_set,
    instruction_sets,
    permutation,
    state_value_count,
    structural_classes,
)


def builtin_checkpoint() -> Path:
    """Directory of the embedded checkpoint `mote`, which a job names as `checkpoint: builtin`."""
    return Path(__file__).parent / "checkpoints" / "mote"


__all__ = [
    "BUILD_ID",
    "CAPTURES",
    "Checkpoint",
    "CheckpointError",
    "Config",
    "Decoder",
    "Intervention",
    "InterventionError",
    "KernelError",
    "PostMhcDelta",
    "Row",
    "State",
    "StateMismatch",
    "StepResult",
    "aggregate",
    "builtin_checkpoint",
    "cpu_features",
    "hc_post",
    "instruction_set",
    "instruction_sets",
    "permutation",
    "state_value_count",
    "structural_classes",
]
