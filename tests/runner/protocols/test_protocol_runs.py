"""What holds for every protocol: runs resume to the same bytes, cutting work otherwise changes no row, bad jobs are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from random_runs import LAYERS, RandomRuns, dataset, submit, violations
from small_jobs import JOBS, rows, small_run

from actors.executor import Event, WorkerSpec
from actors.inline import InlineExecutor
from runner.interrupt import Interrupt
from runner.preflight import prepare
from runner.progress import Silent
from runner.report import report_as_dict
from runner.run import Run, carry_out, open_run
from runner.verify import verify
from schemas.errors import InvalidInput
from schemas.job_file import load_job

every_protocol = pytest.mark.parametrize("protocol", JOBS)


class Killed(BaseException):
    """What no code of the runner catches."""


class DyingExecutor(InlineExecutor):
    """Its process dies when it has executed so many leases, before anyone hears of the last."""

    leases_left = 0

    def wait(self, timeout: float) -> list[Event]:
        events = super().wait(timeout)
        self.leases_left -= 1
        if self.leases_left < 0:
            raise Killed
        return events


def kill_after(leases: int, job: Path, root: Path) -> None:
    prepared = prepare(load_job(job))
    spec = WorkerSpec(prepared.job_file.checkpoint, "official", 1)
    executor = DyingExecutor(spec, prepared.protocol.execute)
    executor.leases_left = leases
    with pytest.raises(Killed):
        carry_out(prepared, root, executor, progress=Silent(), interrupt=Interrupt(lambda: None))


@every_protocol
def test_a_killed_run_resumes_to_the_same_bytes(random_runs: RandomRuns, tmp_path: Path, protocol: str) -> None:
    undisturbed = small_run(random_runs, protocol)
    job = random_runs.job(protocol, JOBS[protocol])
    for leases in (0, 1):
        kill_after(leases, job, tmp_path / "run")
    resumed = submit(job, tmp_path / "run")
    assert dataset(resumed) == dataset(undisturbed)
    assert resumed.store.dataset_digest() == undisturbed.store.dataset_digest()


@every_protocol
def test_a_run_is_clean_and_its_checks_hold(random_runs: RandomRuns, protocol: str) -> None:
    run = small_run(random_runs, protocol)
    assert violations(run) == []
    assert verify(run.store, run.protocol, run.experiment).faults == ()


@every_protocol
def test_a_report_has_rows_before_and_after(random_runs: RandomRuns, tmp_path: Path, protocol: str) -> None:
    job = random_runs.job(protocol, JOBS[protocol])
    kill_after(0, job, tmp_path / "run")
    for run in (small_run(random_runs, protocol), open_run(tmp_path / "run")):
        for table in report_as_dict(run)["report"]:
            assert all(len(row) == len(table["columns"]) for row in table["rows"])


@pytest.mark.parametrize(("protocol", "table"), [("sweep", "sweep_orders"), ("persistent", None), ("intermediates", None)])
def test_how_units_are_cut_changes_no_row(random_runs: RandomRuns, protocol: str, table: str | None) -> None:
    def without_unit(run: Run) -> list[dict[str, Any]]:
        found = [{name: value for name, value in row.items() if name != "unit_key"} for row in rows(run, table=table)]
        return sorted(
            found, key=lambda row: [str(row.get(name)) for name in ("prompt_id", "scheme", "schedule", "order", "request_seed")]
        )

    cut = random_runs.run(f"{protocol}-cut", JOBS[protocol] | {"block": 3, "execution": {"batch": 4}})
    assert without_unit(cut) == without_unit(small_run(random_runs, protocol))


@pytest.mark.parametrize("protocol", ["replay", "sweep", "persistent", "canonical", "propagation"])
def test_a_horizon_beyond_the_positions_is_refused(random_runs: RandomRuns, tmp_path: Path, protocol: str) -> None:
    job = random_runs.job(f"{protocol}-long", JOBS[protocol] | {"horizon": 65_536})
    with pytest.raises(
        InvalidInput, match=r"job.yaml: horizon: found 65536 after the \d+ tokens of prompt en-1, allowed: \d+ positions"
    ):
        submit(job, tmp_path / "run")


@every_protocol
def test_fp32_numerics_are_refused(random_runs: RandomRuns, tmp_path: Path, protocol: str) -> None:
    job = random_runs.job(f"{protocol}-fp32", JOBS[protocol] | {"numerics": "fp32"})
    with pytest.raises(InvalidInput, match=r"job\.yaml: numerics: found fp32, allowed: official"):
        submit(job, tmp_path / "run")


@pytest.mark.parametrize(
    ("protocol", "change", "key"),
    [
        ("sweep", {"fork": {"layer": LAYERS}}, "fork.layer"),
        ("propagation", {"layers": {"output": LAYERS, "router": LAYERS + 1}}, "layers.output"),
        ("propagation", {"layers": {"output": 0, "router": LAYERS}}, "layers.router"),
    ],
)
def test_a_layer_that_the_checkpoint_lacks_is_refused(
    random_runs: RandomRuns, tmp_path: Path, protocol: str, change: dict[str, Any], key: str
) -> None:
    job = random_runs.job(f"{protocol}-layer", JOBS[protocol] | change)
    with pytest.raises(
        InvalidInput, match=f"job.yaml: {key}: found {LAYERS}, allowed: 0..{LAYERS - 1}, the layers of checkpoint"
    ):
        submit(job, tmp_path / "run")
