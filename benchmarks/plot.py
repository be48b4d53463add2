"""Plots of one run, SVG beside its results.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import figures
from benchmarks.figures import Results

ROWS = (1, 8, 64)


def write_plots(results: Results, directory: Path) -> None:
    """What was not measured is not drawn. Without matplotlib (extra `bench`) a line says that there are no plots."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        print("no plots: matplotlib is not installed")
        return
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "benchmarks"  # equal results, equal files
    if "decoding" in results:
        _save(_decoders(results), directory / "decoding.svg")
    if "sweep" in results:
        _save(_branch_cost(results), directory / "branches.svg")
    if "projection" in results:
        _save(_projection(results), directory / "projection.svg")


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def _axes(title: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4))
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _decoders(results: Results) -> Any:
    """Rows a second of every decoder at 1, 8 and 64 rows, with the most threads."""
    threads = max(figures.thread_counts(results))
    named = {"runner, official numerics": figures.decoding(results, results["machine"]["instruction_set"])}
    named |= {name: figures.peer(results, name) for name in results.get("peers", {})}
    named = {name: rates for name, rates in named.items() if rates}
    figure, axes = _axes(f"Rows a second on the embedded checkpoint, {threads} threads")
    width = 0.8 / len(named)
    for place, (name, rates) in enumerate(named.items()):
        at = [group + (place - (len(named) - 1) / 2) * width for group in range(len(ROWS))]
        bars = axes.bar(at, [rates[threads, rows] for rows in ROWS], width, label=name)
        axes.bar_label(bars, fmt="{:.0f}", fontsize=8)
    axes.set_yscale("log")
    axes.set_xticks(range(len(ROWS)), [f"{rows} row{'s' * (rows > 1)}" for rows in ROWS])
    axes.legend(frameon=False, fontsize=8)
    return figure


def _branch_cost(results: Results) -> Any:
    """What a branch-token costs by how many branches decode together."""
    figure, axes = _axes("Cost of a branch-token by branches a step (1 row = 1)")
    for threads in figures.thread_counts(results):
        cost = figures.branch_token_seconds(results, threads)
        axes.plot(list(cost), [seconds / cost[1] for seconds in cost.values()], marker="o", label=f"{threads} threads")
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(cost), [str(rows) for rows in cost])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("branches")
    axes.legend(frameon=False, fontsize=8)
    return figure


def _projection(results: Results) -> Any:
    """Hours of a 720-order sweep of the real Flash by disk bandwidth: lines are the measured host, dashes the larger one."""
    figure, axes = _axes("720 orders of 8 tokens on the real Flash: hours by disk bandwidth (computed)")
    for host, style in zip(results["projection"]["hosts"], ("-", "--"), strict=True):
        for colour, (name, way) in enumerate(host["ways"].items()):
            label = f"{name}, {host['cores']} cores"
            disks = [float(disk) for disk in way["hours"]]
            axes.plot(disks, list(way["hours"].values()), style, color=f"C{colour}", marker=".", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("GB/s")
    axes.set_ylabel("hours")
    axes.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    return figure
