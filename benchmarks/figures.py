"""Figures that the table and the plots share, taken from the results of one run. Rates are medians of their repetitions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import median
from typing import Any

import kernels
from benchmarks.projection import model_of

Results = Mapping[str, Any]


def peak(results: Results, isa: str, threads: int) -> float:
    """Measured 1e9 multiply-adds a second."""
    [found] = [row for row in results["limits"]["fma"] if (row["isa"], row["threads"]) == (isa, threads)]
    return float(median(found["gfma"]))


def memory_bandwidth(results: Results, threads: int) -> float:
    [found] = [row for row in results["limits"]["memory"] if row["threads"] == threads]
    return float(median(found["gb"]))


def thread_counts(results: Results) -> list[int]:
    return [row["threads"] for row in results["limits"]["memory"]]


def decoding(results: Results, isa: str, numerics: str = "official") -> dict[tuple[int, int], float]:
    """(threads, rows) -> rows a second."""
    return {
        (timing["threads"], timing["rows"]): median(timing["rows_per_second"])
        for run in results["decoding"]
        if (run["isa"], run["numerics"]) == (isa, numerics)
        for timing in run["timings"]
    }


def peer(results: Results, name: str, part: str = "timings") -> dict[tuple[int, int], float]:
    """(threads, rows) -> rows a second; {} where the peer was absent or has no such part."""
    timings = results.get("peers", {}).get(name, {}).get(part, ())
    return {(timing["threads"], timing["rows"]): median(timing["rows_per_second"]) for timing in timings}


def agreeing_tokens(results: Results, name: str) -> tuple[int, int]:
    """(equal tokens from the first on, all tokens) of the first row, ours in fp32 numerics against the peer's."""
    [ours] = {tuple(run["timings"][0]["tokens"]) for run in results["decoding"] if run["numerics"] == "fp32"}
    theirs = results["peers"][name]["timings"][0]["tokens"]
    length = min(len(ours), len(theirs))
    equal = next((place for place in range(length) if ours[place] != theirs[place]), length)
    return equal, length


def embedded_products() -> int:
    """Multiply-adds of one token of the embedded checkpoint."""
    return model_of(json.loads((kernels.builtin_checkpoint() / "config.json").read_text())).token_products


def branch_token_seconds(results: Results, threads: int) -> dict[int, float]:
    """Rows -> seconds a branch-token, as bare decoder rows."""
    [found] = [run for run in results["sweep"] if run["threads"] == threads]
    return {row["rows"]: median(row["seconds"]) / row["rows"] / row["tokens"] for row in found["rows"]}
