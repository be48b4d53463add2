"""What a person sees of a run while it runs."""

from __future__ import annotations

import io

from rich.console import Console

from runner.progress import Bar, Lines


def lines(interval: float) -> tuple[Lines, io.StringIO]:
    out = io.StringIO()
    return Lines(Console(file=out, width=100), interval), out


def test_a_stage_has_a_line_at_its_start_and_at_its_end() -> None:
    progress, out = lines(interval=1e9)
    progress.stage("8", total=3, done=1, failed=0)
    progress.committed(1)
    progress.working(in_flight=1, workers=2)
    progress.committed(1)
    assert out.getvalue().splitlines() == ["stage 8: 1/3 units done", "stage 8: 3/3 units done"]


def test_a_line_an_interval_says_what_is_in_flight_and_what_failed() -> None:
    progress, out = lines(interval=0)
    progress.stage("8", total=3, done=0, failed=0)
    progress.set_aside(1)
    progress.working(in_flight=2, workers=2)
    assert out.getvalue().splitlines()[-1] == "stage 8: 0/3 units done, 1 failed, 2 in flight on 2 workers"


def test_the_bar_counts_units_and_gives_the_terminal_back() -> None:
    out = io.StringIO()
    with Bar(Console(file=out, force_terminal=True, width=120)) as bar:
        bar.stage("8", total=4, done=1, failed=0)
        bar.committed(2)
        bar.set_aside(1)
        bar.working(in_flight=1, workers=1)
    assert "4/4" in out.getvalue()
    assert "1 failed, 1 in flight on 1 worker" in out.getvalue()
    assert out.getvalue().endswith("\x1b[?25h")  # the cursor is back
