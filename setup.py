"""Builds the decoder extension; everything else stands in setup.cfg."""

import hashlib
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension, build_ext
from setuptools import setup

ROOT = Path(__file__).parent
SOURCES = sorted(ROOT.glob("kernels/src/**/*.cpp"))
HEADERS = sorted([*ROOT.glob("kernels/src/**/*.h"), *ROOT.glob("kernels/src/**/*.inc")])

# No -march: instruction sets are chosen at run time. No contraction and no fast-math: an FMA stands only where it is written.
# -Wno-psabi: vectors wider than a register are passed by value within a file only.
FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-psabi", "-pthread"]


def build_id() -> str:
    """SHA-256 over sources and flags, so that hosts can tell whether they run the same arithmetic."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for path in [*SOURCES, *HEADERS]:
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


ParallelCompile(default=0).install()
setup(
    ext_modules=[
        Pybind11Extension(
            "kernels._kernels",
            [path.relative_to(ROOT).as_posix() for path in SOURCES],
            depends=[path.relative_to(ROOT).as_posix() for path in HEADERS],
            include_dirs=["kernels/src"],
            define_macros=[("RUNNER_BUILD_ID", f'"{build_id()}"')],
            extra_compile_args=FLAGS,
            extra_link_args=["-pthread"],
            cxx_std=20,
        )
    ],
    cmdclass={"build_ext": build_ext},
)
