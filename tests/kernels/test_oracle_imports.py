"""Our package `kernels` beside an installed transformers, which looks for another distribution of that name."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

OURS = "import kernels, actors, runner, schemas"
THEIRS = "import transformers; from transformers import DeepseekV4ForCausalLM"
CHECK = (
    "from transformers.utils import is_kernels_available; assert not is_kernels_available(); "
    "kernels.Checkpoint.open(kernels.builtin_checkpoint())"
)


@pytest.mark.oracle
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers")
@pytest.mark.parametrize("order", [(OURS, THEIRS), (THEIRS, OURS)], ids=["ours first", "theirs first"])
def test_both_import_in_one_process(order: tuple[str, str]) -> None:
    """transformers must take ours for the absence of the other one, and ours must stay usable."""
    script = "\n".join([*order, CHECK])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
