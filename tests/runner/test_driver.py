"""The driver's promises: nothing lost, nothing twice, the same bytes whatever happened on the way."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_run import (
    DirectedExecutor,
    TinyProtocol,
    complete,
    dataset,
    drive,
    execute,
    experiment,
    open_store,
    rows,
    worker_report,
)

from actors.executor import Done, Event, FailureKind
from runner.events import read_events
from runner.interrupt import Interrupt, Interrupted
from runner.paths import RunPaths
from runner.protocol import Committed, Experiment
from runner.retry_request import RetryRequest
from runner.stage_work import INFRASTRUCTURE_BUDGET, STRIKES
from runner.store import RunStore
from runner.verdict import finish, require_no_finding, verdict
from schemas.errors import ClusterUnreachable, ConformanceFinding, InvalidInput, UnitsFailed
from schemas.unit import Lease, Unit, UnitResult


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    root = tmp_path_factory.mktemp("undisturbed")
    drive(root, DirectedExecutor(workers_alive=1), about=experiment(batch=1))
    return rows(root)


def test_a_run_commits_every_unit_of_every_stage(tmp_path: Path) -> None:
    store = drive(tmp_path)
    assert len(store.units("4")) == 6
    assert 0 < len(store.units("8")) < 6
    assert store.table("8", "tokens").num_rows == len(store.units("8"))


@given(
    executor=st.builds(DirectedExecutor, workers_alive=st.integers(1, 5), seed=st.integers(0, 2**32), copies=st.integers(1, 2)),
    batch=st.integers(1, 7),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_do_not_depend_on_order_workers_or_batching(
    tmp_path_factory: pytest.TempPathFactory, undisturbed: dict[str, bytes], executor: DirectedExecutor, batch: int
) -> None:
    root = tmp_path_factory.mktemp("disturbed")
    drive(root, executor, about=experiment(batch=batch))
    assert rows(root) == undisturbed


def interrupt_after(leases: int, executor: DirectedExecutor, interrupt: Interrupt, lease: Lease) -> None:
    interrupt.requested = len(executor.leases) >= leases


@given(seed=st.integers(0, 2**32), stops=st.lists(st.integers(1, 4), max_size=4))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_run_resumes_with_any_number_of_workers(
    tmp_path_factory: pytest.TempPathFactory, undisturbed: dict[str, bytes], seed: int, stops: list[int]
) -> None:  # R04
    root = tmp_path_factory.mktemp("resumed")
    for place, leases in enumerate(stops):
        executor = DirectedExecutor(workers_alive=1 + place, seed=seed)
        interrupt = Interrupt(lambda: None)

        executor.trouble = partial(interrupt_after, leases, executor, interrupt)
        with contextlib.suppress(Interrupted):
            drive(root, executor, interrupt=interrupt)
    drive(root, DirectedExecutor(workers_alive=3, seed=seed))
    assert rows(root) == undisturbed


def test_results_are_committed_while_others_are_still_in_flight(tmp_path: Path) -> None:  # R07
    committed_before = []
    executor = DirectedExecutor(workers_alive=1)

    def look(lease: Lease) -> None:
        committed_before.append(RunStore(RunPaths(tmp_path), TinyProtocol().schemas()).table("4", "sums").num_rows)

    executor.trouble = look
    drive(tmp_path, executor, about=experiment(batch=1))
    assert committed_before[:6] == [0, 1, 2, 3, 4, 5]


class SlowStart(DirectedExecutor):
    """Somebody presses Ctrl-C while its workers start, for which it waits for minutes."""

    def start(self, proceed: Callable[[], None] = lambda: None) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        proceed()
        super().start()


def test_an_interrupt_while_workers_start_does_not_wait_for_them(tmp_path: Path) -> None:
    executor = SlowStart()
    with Interrupt(lambda: None) as interrupt, pytest.raises(Interrupted, match="before any worker had work"):
        drive(tmp_path, executor, interrupt=interrupt)
    assert (executor.started, executor.leases, executor.closed) == (False, [], [True])


def test_the_first_interrupt_commits_what_is_in_flight_and_leases_nothing_more(tmp_path: Path) -> None:
    interrupt = Interrupt(lambda: None)
    executor = DirectedExecutor(workers_alive=2)

    def interrupt_now(lease: Lease) -> None:
        interrupt.requested = True

    executor.trouble = interrupt_now
    with pytest.raises(Interrupted):
        drive(tmp_path, executor, about=experiment(batch=1), interrupt=interrupt)
    assert len(executor.leases) == 2
    assert open_store(tmp_path).units("4") == {unit.key for lease in executor.leases for unit in lease.units}


def harmful(prompt_id: str, kind: FailureKind) -> DirectedExecutor:
    return DirectedExecutor(trouble=lambda lease: kind if any(unit.prompt_id == prompt_id for unit in lease.units) else None)


@pytest.mark.parametrize("kind", ["crash", "error", "deadline", "memory"])
def test_a_harmful_unit_is_set_aside_and_all_others_are_done(tmp_path: Path, kind: FailureKind) -> None:
    executor = harmful("p3", kind)
    store = drive(tmp_path, executor)
    failures = store.failures("4")
    assert [(one.prompt_id, one.kind, one.strikes) for one in failures.values()] == [("p3", kind, STRIKES)]
    assert len(store.units("4")) == 5


def test_only_the_culprit_of_a_batch_is_tried_until_the_limit(tmp_path: Path) -> None:
    executor = harmful("p3", "crash")
    drive(tmp_path, executor, about=experiment(prompts=8, batch=8))
    tries = Counter(unit.prompt_id for lease in executor.leases for unit in lease.units if unit.stage == "4")
    assert tries.pop("p3") == STRIKES
    assert set(tries.values()) <= {1, 2}


def test_a_unit_set_aside_is_not_run_again_by_a_resume(tmp_path: Path) -> None:
    drive(tmp_path, harmful("p3", "crash"))
    executor = harmful("p3", "crash")
    store = drive(tmp_path, executor)
    assert not executor.leases
    assert len(store.failures("4")) == 1


def test_a_finished_stage_does_not_hide_units_that_never_succeeded(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:  # R03
    store = drive(tmp_path, harmful("p0", "crash"))
    RetryRequest(store).clear(("4", "8"))
    drive(tmp_path)
    assert rows(tmp_path) == undisturbed


def test_lost_hosts_are_no_strike(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    losses = iter(range(INFRASTRUCTURE_BUDGET))
    store = drive(tmp_path, DirectedExecutor(trouble=lambda lease: "infrastructure" if next(losses, None) is not None else None))
    assert not store.failures("4")
    assert rows(tmp_path) == undisturbed


def test_losses_with_results_between_them_do_not_add_up(tmp_path: Path) -> None:
    tries = iter(range(1_000_000))
    every_third_works = DirectedExecutor(trouble=lambda lease: None if next(tries) % 3 == 2 else "infrastructure")
    store = drive(tmp_path, every_third_works, about=experiment(prompts=30, batch=1))
    assert next(tries) - 1 > 2 * INFRASTRUCTURE_BUDGET
    assert len(store.units("4")) == 30


def test_a_host_takes_all_its_workers_along_and_the_run_goes_on(tmp_path: Path) -> None:
    workers = 3 * INFRASTRUCTURE_BUDGET
    losses = iter(range(workers))
    executor = DirectedExecutor(workers, trouble=lambda lease: "infrastructure" if next(losses, None) is not None else None)
    store = drive(tmp_path, executor, about=experiment(prompts=2 * workers, batch=1))
    assert len(store.units("4")) == 2 * workers


def test_endless_losses_end_the_run(tmp_path: Path) -> None:
    executor = DirectedExecutor(trouble=lambda lease: "infrastructure")
    with pytest.raises(ClusterUnreachable, match=f"{INFRASTRUCTURE_BUDGET + 1} workers lost in a row"):
        drive(tmp_path, executor)
    assert executor.closed == [True]


def test_a_unit_that_hosts_are_lost_of_waits_for_all_others(tmp_path: Path) -> None:
    """It may be what they are lost of: the run gives up in the end, with everything else done."""
    with pytest.raises(ClusterUnreachable, match="workers lost in a row"):
        drive(tmp_path, harmful("p1", "infrastructure"), about=experiment(prompts=30, batch=4))
    store = open_store(tmp_path)
    assert len(store.units("4")) == 29
    assert not store.failures("4")


def test_other_bytes_for_a_committed_unit_stop_the_run(tmp_path: Path) -> None:
    class Undecided(DirectedExecutor):
        """Every lease is answered twice, the second time by other arithmetic."""

        def wait(self, timeout: float) -> list[Event]:
            return [
                event if number == 0 or not isinstance(event, Done) else replace(event, results=off_by_one(event.lease.units))
                for number, event in enumerate(super().wait(timeout))
            ]

    with pytest.raises(ConformanceFinding, match="executed again it gave other bytes in sums, tokens"):
        drive(tmp_path, Undecided(copies=2))
    assert len(open_store(tmp_path).findings()) == 2


def off_by_one(units: Sequence[Unit]) -> list[UnitResult]:
    return execute(None, [replace(unit, payload={"text": unit.payload["text"] + "!"}) for unit in units])


def test_a_stage_that_contradicts_an_earlier_one_is_a_finding(tmp_path: Path) -> None:
    def drifting(session: object, units: Sequence[Unit]) -> list[UnitResult]:
        if units[0].stage == "4":
            return execute(session, units)
        return execute(session, [Unit(u.stage, u.prompt_id, u.meaning, {"text": "drifted"}) for u in units])

    with pytest.raises(ConformanceFinding, match=r"after stage 8: prompt p\d: other first tokens"):
        drive(tmp_path, DirectedExecutor(work=drifting))


def test_a_finding_in_a_worker_stops_the_run_at_once(tmp_path: Path) -> None:
    executor = DirectedExecutor(trouble=lambda lease: "finding")
    with pytest.raises(ConformanceFinding):
        drive(tmp_path, executor)
    assert executor.closed == [True]
    [path] = open_store(tmp_path).findings()
    kept = json.loads(path.read_text())
    assert (kept["source"], kept["stage"], kept["message"]) == ("worker", "4", "finding in lease")
    assert (kept["detail"], kept["worker"]) == ("the whole story", "w0")
    assert kept["units"] in [[unit.key for unit in lease.units] for lease in executor.leases]


def test_what_a_check_found_is_kept(tmp_path: Path) -> None:
    class Contradicting(TinyProtocol):
        def check(self, experiment: Experiment, committed: Committed) -> list[str]:
            return ["one thing", "another thing"]

    with pytest.raises(ConformanceFinding, match=r"after stage 4: one thing \(and 1 more\)"):
        drive(tmp_path, protocol=Contradicting())
    store = open_store(tmp_path)
    [path] = store.findings()
    assert json.loads(path.read_text())["detail"] == "one thing\nanother thing"
    with pytest.raises(ConformanceFinding, match="after stage 4: one thing"):
        require_no_finding(store)


@pytest.mark.parametrize("what", ["build_id", "checkpoint_identity", "tokenizer_identity"])
def test_a_fleet_of_another_kind_than_the_run_commits_nothing(tmp_path: Path, what: str) -> None:
    executor = DirectedExecutor(joining=[replace(worker_report("w0"), **{what: "other"})])
    with pytest.raises(InvalidInput, match=r"w0 on here: .* found other, allowed: .*, which the run was started with"):
        drive(tmp_path, executor)
    assert not executor.leases
    assert not open_store(tmp_path).units("4")
    assert executor.closed == [True]


class Choosy(TinyProtocol):
    """Stage 8 takes the half of the prompts that have the largest totals: a choice among all."""

    needs_complete: Mapping[str, Sequence[str]] = {"8": ("4",)}

    def units(self, experiment: Experiment, stage: str, committed: Committed) -> list[Unit]:
        if stage == "8":
            rows = sorted(committed.table("4", "sums").to_pylist(), key=lambda row: row["total"])
            chosen = {row["prompt_id"] for row in rows[-(len(rows) // 2) :]}
            experiment = replace(experiment, prompts=[one for one in experiment.prompts if one.prompt_id in chosen])
        return [replace(unit, stage=stage) for unit in self._all(experiment, stage)]

    def _all(self, experiment: Experiment, stage: str) -> list[Unit]:
        units = super().units(experiment, "4", None)  # type: ignore[arg-type]
        return [replace(unit, meaning={**unit.meaning, "horizon": int(stage)}) for unit in units]


def test_a_stage_chosen_among_all_waits_for_all(tmp_path: Path) -> None:
    undisturbed = complete(tmp_path / "undisturbed", protocol=Choosy())
    root = tmp_path / "run"
    with pytest.raises(UnitsFailed, match=r"stage 8 needs every unit of stage 4; .*prompt p5 in stage 4: crash after 3 tries"):
        drive(root, DirectedExecutor(trouble=lambda lease: hurt_by(lease, "p5")), protocol=Choosy())
    store = open_store(root)
    assert "8" not in store.plans()
    assert verdict(store, ("4", "8"), Choosy.needs_complete).state == "failed"
    RetryRequest(store).clear(("4", "8"))
    retried = drive(root, protocol=Choosy())
    finish(retried, ("4", "8"))
    assert dataset(retried) == dataset(undisturbed)
    assert retried.units("8") == undisturbed.units("8")


def hurt_by(lease: Lease, prompt: str) -> FailureKind | None:
    return "crash" if any(unit.prompt_id == prompt for unit in lease.units) else None


def test_nothing_to_do_starts_no_executor(tmp_path: Path) -> None:
    drive(tmp_path)
    executor = DirectedExecutor()
    drive(tmp_path, executor)
    assert not executor.started


def test_attempts_stand_in_the_events_and_not_in_the_keys(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:  # R05
    crashes = iter(range(2))
    drive(tmp_path, DirectedExecutor(trouble=lambda lease: "crash" if next(crashes, None) is not None else None))
    kinds = Counter(event["event"] for event in read_events(open_store(tmp_path).storage, tmp_path / "events.log"))
    assert kinds["failed"] == 2
    assert rows(tmp_path) == undisturbed
