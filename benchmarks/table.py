"""The tables of one run: on the terminal, and as Markdown for docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks import figures
from benchmarks.figures import Results
from benchmarks.projection import columns, lines

Line = Sequence[str]


@dataclass(frozen=True)
class Section:
    title: str
    columns: Line
    rows: Sequence[Line]


def heading(results: Results) -> str:
    machine = results["machine"]
    load = machine["load_average"][0]
    busy = "" if machine["idle"] else "; the machine was busy: these figures say nothing"
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['instruction_set']}, {machine['date']}, load {load}{busy}"


def sections(results: Results) -> list[Section]:
    """What was measured, in the order of the page."""
    threads = f"{max(figures.thread_counts(results))} threads"
    makers = {
        "limits": ("Limits, measured in the same run", ("", "one thread", threads), _limits),
        "products": (
            "Matrix products at Flash shapes",
            ("kernels", "weights", "shape", "rows", "threads", "from", "GFMA/s", "of peak", "GB/s", "of memory", "freed / ours"),
            _products,
        ),
        "decoding": (
            "Decoding, embedded checkpoint: rows a second",
            ("", "threads", "1 row", "8 rows", "64 rows", "of peak at 64"),
            _decoding,
        ),
        "sweep": ("720 A orders of one fork, 8 tokens each", ("", "threads", "seconds", ""), _sweep),
        "branches": ("Bytes a branch", ("", "after the fork", "with its tokens", "a copied state"), _branches),
        "full_geometry": ("One token at the full Flash geometry, sparse zeros", ("", ""), _full_geometry),
    }
    found = [Section(title, heads, list(rows(results))) for name, (title, heads, rows) in makers.items() if name in results]
    for host in results.get("projection", {}).get("hosts", ()):
        found.append(Section("720 orders of 8 tokens on the real Flash, computed", columns(host), lines(host)))
    return found


def print_tables(results: Results) -> None:
    console = Console(width=150, highlight=False)
    console.print(heading(results))
    for section in sections(results):
        table = Table(title=section.title, title_justify="left")
        for place, column in enumerate(section.columns):
            table.add_column(column, justify="left" if place == 0 else "right")
        for row in section.rows:
            table.add_row(*row)
        console.print(table)


def markdown(results: Results) -> str:
    parts = [heading(results)]
    for section in sections(results):
        marks = ["---", *["---:"] * (len(section.columns) - 1)]
        table = [f"| {' | '.join(row)} |" for row in (section.columns, marks, *section.rows)]
        parts.append("\n".join([f"### {section.title}", "", *table]))
    return "\n\n".join(parts) + "\n"


def _limits(results: Results) -> Iterator[Line]:
    threads = figures.thread_counts(results)
    few, many = min(threads), max(threads)
    for isa in sorted({row["isa"] for row in results["limits"]["fma"]}):
        yield (
            f"{'BF16' if isa.endswith('_bf16') else 'FP32'} multiply-adds, {isa}, GFMA/s",
            f"{figures.peak(results, isa, few):.1f}",
            f"{figures.peak(results, isa, many):.1f}",
        )
    yield (
        "memory read, GB/s",
        f"{figures.memory_bandwidth(results, few):.1f}",
        f"{figures.memory_bandwidth(results, many):.1f}",
    )
    if "disk" in results:
        for row in results["disk"]["direct"]:
            yield f"disk read, O_DIRECT, {row['readers']} readers, GB/s", f"{median(row['gb']):.2f}", ""
        yield "disk read, cold file through a map, GB/s", f"{median(results['disk']['mapped']):.2f}", ""


def _products(results: Results) -> Iterator[Line]:
    keys = ("isa", "format", "rows", "cols", "batch", "threads", "place")
    freed = {tuple(row[key] for key in keys): median(row["gfma"]) for row in results["products"] if row["order"] == "freed"}
    for row in results["products"]:
        if row["order"] == "freed":
            continue
        rate, shape = median(row["gfma"]), (row["rows"], row["cols"])
        bandwidth = rate / row["batch"] / shape[0] / shape[1] * row["bytes"]
        memory = row["place"] == "memory"
        other = freed.get(tuple(row[key] for key in keys))
        yield (
            row["isa"],
            row["format"],
            f"{shape[0]} x {shape[1]}",
            str(row["batch"]),
            str(row["threads"]),
            row["place"],
            f"{rate:.1f}",
            _of_peak(results, row["isa"], row["threads"], rate) if row["isa"] != "scalar" else "",
            f"{bandwidth:.1f}" if memory else "",
            f"{bandwidth / figures.memory_bandwidth(results, row['threads']):.0%}" if memory else "",
            f"{other / rate:.2f}" if other else "",
        )


def _of_peak(results: Results, isa: str, threads: int, rate: float) -> str:
    """The share of the instruction set's own multiply-adds, and of FP32's where its own are BF16's."""
    share = f"{rate / figures.peak(results, isa, threads):.0%}"
    if not isa.endswith("_bf16"):
        return share
    return f"{share} ({rate / figures.peak(results, isa.removesuffix('_bf16'), threads):.0%} of FP32's)"


def _decoding(results: Results) -> Iterator[Line]:
    fastest = results["machine"]["instruction_set"]
    ours = figures.decoding(results, fastest)
    named = [
        (f"ours, {run['isa']}, {run['numerics']}", run["isa"], figures.decoding(results, run["isa"], run["numerics"]))
        for run in results["decoding"]
    ]
    for name in results.get("peers", {}):
        named.append((name, "", figures.peer(results, name)))
        if generate := figures.peer(results, name, "generate"):
            named.append((f"{name}, its Python interface", "", generate))
    for name, isa, rates in named:
        if not rates:
            yield f"{name}: absent, {results['peers'][name]['absent']}", "", "", "", "", ""
        for threads in sorted({threads for threads, _ in rates}):
            cells = []
            for rows in (1, 8, 64):
                rate, own = rates.get((threads, rows)), ours.get((threads, rows))
                compared = "" if rate is None or own is None or rate == own else f" (ours {own / rate:.1f}x)"
                cells.append("" if rate is None else f"{rate:.0f}{compared}")
            share = ""
            if (threads, 64) in rates and isa:
                share = f"{rates[threads, 64] * figures.embedded_products() / 1e9 / figures.peak(results, isa, threads):.0%}"
            yield name, str(threads), *cells, share
    for name in results.get("peers", {}):
        if figures.peer(results, name):
            equal, length = figures.agreeing_tokens(results, name)
            yield f"{name}: first {equal} of {length} greedy tokens equal ours in fp32 numerics", "", "", "", "", ""


def _sweep(results: Results) -> Iterator[Line]:
    for run in results["sweep"]:
        for row in run["protocol"]:
            name = f"protocol, units of {row['block']} branches"
            yield (
                name,
                str(run["threads"]),
                f"{median(row['seconds']):.2f}",
                f"{row['executed']} of {row['orders']} states executed",
            )
        cost = figures.branch_token_seconds(results, run["threads"])
        for rows, seconds in cost.items():
            note = f"{1e6 * seconds:.0f} us a branch-token, {seconds / cost[1]:.2f} of one row's"
            yield f"bare rows, {rows}", str(run["threads"]), f"{seconds * rows * 8:.2f}", note


def _branches(results: Results) -> Iterator[Line]:
    found = [("embedded checkpoint", row) for row in results["branches"]]
    if "full_geometry" in results:
        found.append(("Flash", results["full_geometry"]["branch"]))
    for name, row in found:
        where = f"{name}, after {row['prompt_tokens']} tokens and {row['tokens']} of its own"
        yield where, f"{row['fork_bytes']:,.0f}", f"{row['branch_bytes']:,.0f}", f"{row['copied_state_bytes']:,}"


def _full_geometry(results: Results) -> Iterator[Line]:
    found = results["full_geometry"]
    first, *later = found["token_seconds"]
    decoded = found["resident"]["decoded"]
    yield "layers, experts, threads", f"{found['layers']}, {found['experts']}, {found['threads']}"
    yield "opened in, s", f"{found['open_seconds']:.2f}"
    yield "first token, page cache empty, s", f"{first:.2f}"
    yield "later tokens, s", f"{median(later):.2f}"
    yield "weights a token reads, GB", f"{sum(found['token_bytes'].values()) / 1e9:.2f}"
    yield "resident beside the page cache (RssAnon), GiB", f"{decoded['RssAnon'] / 2**30:.2f}"
    yield "mapped page cache (RssFile), GiB", f"{decoded['RssFile'] / 2**30:.2f}"
