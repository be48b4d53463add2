"""`benchmarks` lies beside the tests and is not installed; importing it puts the makers of checkpoints on the path too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
import benchmarks  # noqa: F401
