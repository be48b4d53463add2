"""Benchmarks: what the machine could do, what we do with it, and what others do. `python -m benchmarks` prints one table.

Not installed and not imported by the product. The makers of checkpoints in tests/ serve here too, so tests/ and tests/kernels are
put on the import path.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path += [path for path in (str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "kernels")) if path not in sys.path]
