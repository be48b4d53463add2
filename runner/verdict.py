"""What became of a run, told by its store and by nothing else: neither an exit status nor a cluster's job status is believed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from runner.disk import COMMITTED_MODE, put_files
from runner.finding import told
from runner.store import RunStore, file_fault
from schemas.errors import ConformanceFinding, InvalidInput, UnitsFailed

State = Literal["finished", "differs", "failed", "unfinished"]


@dataclass(frozen=True)
class StageCount:
    """Units of a stage. planned: None while the stage has no plan, because the ones before it have not ended or lack units."""

    stage: str
    planned: int | None
    done: int
    failed: int


@dataclass(frozen=True)
class Verdict:
    """finished: every unit of every stage is committed. differs: a conformance finding is kept, such as a unit's other bytes.
    failed: all that can be done is done, and some units are set aside. unfinished: there is work left.
    """

    state: State
    stages: Sequence[StageCount]

    def as_dict(self) -> dict[str, Any]:
        return {"state": self.state, "stages": [asdict(stage) for stage in self.stages]}


def verdict(store: RunStore, stages: Sequence[str], needs_complete: Mapping[str, Sequence[str]]) -> Verdict:
    """The verdict on the run, whose protocol has these stages and needs (see ExperimentProtocol). Reads no data file.

    Raises ConformanceFinding when the run is marked as finished and its plans and logs are not what was marked.
    """
    counts = [_count(store, stage) for stage in stages]
    with_failures = {count.stage for count in counts if count.failed}
    barred = {stage for stage in stages if with_failures.intersection(needs_complete.get(stage, ()))}
    if store.findings():
        state: State = "differs"
    elif store.finished() is not None:
        require_marked(store, stages)
        counts = [_count(store, stage) for stage in stages]
        state = "finished"
    elif any(_work_left(count, barred) for count in counts):
        state = "unfinished"
    else:
        # Everything done and not marked: the driver ended between the last commit and the mark.
        state = "failed" if any(count.failed for count in counts) else "unfinished"
    return Verdict(state, counts)


def finish(store: RunStore, stages: Sequence[str]) -> None:
    """Mark a run, all of whose stages have been worked off, as finished; it never changes again.

    Every committed file is read once more: it may have been damaged since its commit. Raises UnitsFailed, naming one unit and its
    last error, when units are set aside, ConformanceFinding, and InvalidInput when units are committed that the plans do not have
    or a file is not what the log says.
    """
    require_no_finding(store)
    failures = [(stage, failure) for stage in stages for failure in store.failures(stage).values()]
    if failures:
        stage, failure = failures[0]
        raise UnitsFailed(f"units set aside: {len(failures)}; the first: {failure.told(stage)}")
    for count in [_count(store, stage) for stage in stages]:
        if count.done != count.planned:
            raise RuntimeError(f"stage {count.stage} was worked off and has {count.done} of {count.planned} units")
    for stage in stages:
        unplanned = store.units(stage).difference(line["unit"] for line in store.planned(stage))
        if unplanned:
            found = f"{len(unplanned)} committed units that the plan does not have, such as {min(unplanned)}"
            raise InvalidInput(str(store.paths.commit_log(stage)), "", found, "units of the plan (another --run-dir starts anew)")
    for stage in stages:
        for commit in store.commits(stage).values():
            for file in commit.files.values():
                path = store.paths.data(file.table, stage, commit.unit)
                fault = file_fault(path, file)
                if fault:
                    raise InvalidInput(str(path), "", fault, "the file that the commit log names")
    content = {
        "dataset_digest": store.dataset_digest(),
        "units": _committed(store, stages),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    put_files(store.disk, [(store.paths.finished, (json.dumps(content, indent=1) + "\n").encode())], COMMITTED_MODE)


def require_no_finding(store: RunStore) -> None:
    """Raises ConformanceFinding when a finding is kept: the run can never be trusted again."""
    findings = store.findings()
    if findings:
        raise ConformanceFinding(f"{store.paths.root}: {told(findings[0])}; kept as {findings[0]}")


def require_marked(store: RunStore, stages: Sequence[str]) -> None:
    """Raises ConformanceFinding when plans and logs do not hold what the run was marked as finished with. Reads no data file.

    A run without the mark is none of its business.
    """
    mark = store.finished()
    if mark is None or not _contradictions(store, stages, mark):
        return
    store.refresh()  # what this reader knew may be older than the mark
    contradictions = _contradictions(store, stages, mark)
    if contradictions:
        raise ConformanceFinding(
            f"{store.paths.finished}: {contradictions[0]}; `runner verify {store.paths.root}` says what is wrong"
        )


def _contradictions(store: RunStore, stages: Sequence[str], mark: Mapping[str, Any]) -> list[str]:
    """In what a run is not what its mark says, a line each."""
    digest, units, planned = store.dataset_digest(), _committed(store, stages), {s: len(store.planned(s)) for s in stages}
    lines = [
        ("the dataset's digest", mark.get("dataset_digest"), digest),
        ("the number of committed units", mark.get("units"), units),
        ("the number of planned units", mark.get("units"), planned),
    ]
    return [f"{what} was {marked}, now it is {found}" for what, marked, found in lines if marked != found]


def _committed(store: RunStore, stages: Sequence[str]) -> dict[str, int]:
    return {stage: len(store.commits(stage)) for stage in stages}


def _work_left(count: StageCount, barred: Collection[str]) -> bool:
    if count.planned is None:
        return count.stage not in barred
    return count.done + count.failed < count.planned


def _count(store: RunStore, stage: str) -> StageCount:
    planned = [line["unit"] for line in store.planned(stage)] if store.paths.plan(stage).exists() else None
    done = len(store.units(stage).intersection(planned or ()))
    return StageCount(stage, None if planned is None else len(planned), done, len(store.failures(stage)))
