"""What became of a run, told by its store and by nothing else: neither an exit status nor a cluster's job status is believed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, Literal

from runner.dataset import Part, digest_of, write_parts
from runner.finding import told
from runner.mark import Mark
from runner.store import RunStore
from schemas.errors import ConformanceFinding, InvalidInput, RunBusy, UnitsFailed

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
        state = "finished"
    elif any(_work_left(count, barred) for count in counts):
        state = "unfinished"
    else:
        # Everything done and not marked: the driver ended between the last commit and the mark.
        state = "failed" if any(count.failed for count in counts) else "unfinished"
    return Verdict(state, counts)


def finish(store: RunStore, stages: Sequence[str]) -> None:
    """Write the dataset of a run, all of whose stages have been worked off, and mark the run as finished; it never changes again.

    Of a run in which units are set aside the rows of the others are written, and there is no mark. Raises UnitsFailed, naming one
    unit and its last error, then; ConformanceFinding; InvalidInput when units are committed that the plans do not have or an
    entry of the journal is damaged.
    """
    require_no_finding(store)
    failures = [(stage, failure) for stage in stages for failure in store.failures(stage).values()]
    for stage in [] if failures else stages:
        count = _count(store, stage)
        if count.done != count.planned:
            raise RuntimeError(f"stage {stage} was worked off and has {count.done} of {count.planned} units")
        unplanned = store.units(stage).difference(store.planned_keys(stage))
        if unplanned:
            found = f"{len(unplanned)} committed units that the plan does not have, such as {min(unplanned)}"
            raise InvalidInput(str(store.paths.journal), stage, found, "units of the plan (another --run-dir starts anew)")
    parts = write_dataset(store, stages)
    if failures:
        stage, failure = failures[0]
        raise UnitsFailed(f"units set aside: {len(failures)}; the first: {failure.told(stage)}")
    plans = {stage: store.plans()[stage] for stage in stages}
    mark = Mark(digest_of(parts), plans, parts, datetime.now(UTC).isoformat(timespec="seconds"))
    store.require_held()
    try:
        store.storage.create(store.paths.finished, mark.to_bytes())
    except FileExistsError:  # another driver took the run over, and was faster
        theirs = Mark.read(store.storage, store.paths.finished)
        if theirs is None or theirs.dataset_digest != mark.dataset_digest:
            raise RunBusy(f"{store.paths.root}: this driver was given up, and another one finished the run") from None
    store.refresh()
    store.remove(store.orphans())


def write_dataset(store: RunStore, stages: Sequence[str]) -> list[Part]:
    """Write the rows of all committed units under tables/, and nothing else there; durable on return."""
    parts = []
    for stage in stages:
        for table, schema in sorted(store.schemas.items()):
            store.require_held()
            rows = store.rows_in_order(stage, table)
            parts += write_parts(store.storage, store.paths, stage=stage, table=table, schema=schema, rows=rows)
    _sweep(store, {part.path(store.paths) for part in parts})
    return parts


def _sweep(store: RunStore, named: Collection[PurePath]) -> None:
    """Remove data files of an earlier attempt: whoever reads the directory as a dataset would read them too."""
    store.remove([path for path in store.data_files() if path not in named])


def require_no_finding(store: RunStore) -> None:
    """Raises ConformanceFinding when a finding is kept: the run can never be trusted again."""
    findings = store.findings()
    if findings:
        raise ConformanceFinding(f"{store.paths.root}: {told(store, findings[0])}; kept as {findings[0]}")


def require_marked(store: RunStore, stages: Sequence[str]) -> None:
    """Raises ConformanceFinding when plans and data files are not those that the run was marked as finished with. Reads no data
    file.

    A run without the mark is none of its business.
    """
    mark = store.finished()
    found = [] if mark is None else contradictions(store, stages, mark)
    if found:
        raise ConformanceFinding(f"{store.paths.finished}: {found[0]}; `runner verify {store.paths.root}` says what is wrong")


def contradictions(store: RunStore, stages: Sequence[str], mark: Mark) -> list[str]:
    """In what a run is not what its mark says, a line each."""
    planned = {stage: sum(1 for _ in store.planned(stage)) for stage in stages}
    named, found = set(store.part_paths()), set(store.data_files())
    lines = [
        ("the dataset's digest", mark.dataset_digest, digest_of(mark.parts)),
        ("the number of planned units", {stage: plan.units for stage, plan in mark.plans.items()}, planned),
    ]
    faults = [f"{what} was {marked}, now it is {now}" for what, marked, now in lines if marked != now]
    faults += [f"{path} is not there any more" for path in sorted(named - found)]
    return faults + [f"{path} was not there; `runner resume` removes it" for path in sorted(found - named)]


def _work_left(count: StageCount, barred: Collection[str]) -> bool:
    if count.planned is None:
        return count.stage not in barred
    return count.done + count.failed < count.planned


def _count(store: RunStore, stage: str) -> StageCount:
    plan = store.plans().get(stage)
    if plan is None:
        return StageCount(stage, None, 0, len(store.failures(stage)))
    if store.finished() is not None:
        return StageCount(stage, plan.units, plan.units, 0)
    return StageCount(stage, plan.units, len(store.units(stage)) - plan.unplanned, len(store.failures(stage)))
