"""Is a run what its logs say? Every file hashed again, every key computed again, every check of the protocol made again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from runner import parquet
from runner.finding import told
from runner.protocol import Experiment, ExperimentProtocol
from runner.record_log import canonical_json
from runner.store import Commit, RunStore, file_fault
from schemas.errors import InvalidInput
from schemas.unit import Unit


@dataclass(frozen=True)
class Verification:
    """faults: what is wrong, a line each. leftovers: what a kill left and the next driver sweeps. digest: of the dataset."""

    units: int
    files: int
    bytes: int
    digest: str
    faults: tuple[str, ...]
    leftovers: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return not self.faults

    def as_dict(self) -> dict[str, object]:
        return {
            "clean": self.clean,
            "units": self.units,
            "files": self.files,
            "bytes": self.bytes,
            "dataset_digest": self.digest,
            "faults": list(self.faults),
            "leftovers": list(self.leftovers),
        }


def verify(store: RunStore, protocol: ExperimentProtocol, experiment: Experiment) -> Verification:
    """Check the whole run; never writes. A run that a kill interrupted is clean as long as what it committed is whole."""
    try:
        return _verify(store, protocol, experiment)
    except InvalidInput as error:  # where a log or a plan cannot be believed, nothing it names can
        return Verification(0, 0, 0, "", (str(error),), ())


def _verify(store: RunStore, protocol: ExperimentProtocol, experiment: Experiment) -> Verification:
    torn = [f"{path}: {content.torn_bytes} bytes of a torn append" for path, content in store.logs() if content.torn_bytes]
    commits = {stage: list(store.commits(stage).values()) for stage in store.stages_on_disk()}
    files = [file for of_stage in commits.values() for commit in of_stage for file in commit.files.values()]
    faults = [fault for stage, of_stage in commits.items() for commit in of_stage for fault in _file_faults(store, stage, commit)]
    faults += [fault for stage in commits for fault in _plan_faults(store, stage)]
    stages = protocol.stages(experiment.job)
    faults += [
        f"{store.paths.record}: its job has no stage {stage}, which is on disk" for stage in commits if stage not in stages
    ]
    faults += [f"{path}: {told(path)}" for path in store.findings()]
    if not faults:  # these read the tables, so only tables that can be read
        faults += _duplicate_rows(store, commits)
        faults += [fault for stage in stages for fault in _unit_faults(store, stage, protocol.units(experiment, stage, store))]
        faults += protocol.check(experiment, store)
    digest = store.dataset_digest()
    finished = store.finished()
    if finished is not None and finished["dataset_digest"] != digest:
        faults.append(f"{store.paths.finished}: the dataset's digest was {finished['dataset_digest']}, now it is {digest}")
    return Verification(
        units=sum(len(of_stage) for of_stage in commits.values()),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        digest=digest,
        faults=tuple(faults),
        leftovers=(*torn, *(f"{path}: no log names it" for path in store.orphans())),
    )


def _file_faults(store: RunStore, stage: str, commit: Commit) -> Iterator[str]:
    """Every file of a commit is there, has the bytes, rows and schema version that the log and the protocol say."""
    if set(commit.files) != set(store.schemas):
        yield f"stage {stage}, unit {commit.unit}: tables {sorted(commit.files)} instead of {sorted(store.schemas)}"
        return
    for name, expected in commit.files.items():
        path = store.paths.data(name, stage, commit.unit)
        fault = file_fault(path, expected)
        if fault:
            yield f"{path}: {fault}"
            continue
        table = parquet.from_bytes(path.read_bytes())
        if not table.schema.equals(store.schemas[name], check_metadata=True):
            found, allowed = _metadata(table.schema, "schema_version"), _metadata(store.schemas[name], "schema_version")
            yield f"{path}: not of its schema (version {found}, the protocol declares {allowed})"
        if table.num_rows != expected.rows:
            yield f"{path}: {table.num_rows} rows instead of {expected.rows}"


def _plan_faults(store: RunStore, stage: str) -> Iterator[str]:
    """Keys are the hashes of their pre-images, each once, and nothing is committed that was not planned."""
    seen: set[str] = set()
    for line in store.planned(stage):
        key = hashlib.sha256(canonical_json(line["meaning"]).encode()).hexdigest()
        if key != line["unit"]:
            yield f"{store.paths.plan(stage)}: unit {line['unit']} has a pre-image with the key {key}"
        if line["unit"] in seen:
            yield f"{store.paths.plan(stage)}: unit {line['unit']} stands twice"
        seen.add(line["unit"])
    for unit in sorted(store.units(stage) - seen):
        yield f"{store.paths.commit_log(stage)}: unit {unit} is committed and not planned"


def _unit_faults(store: RunStore, stage: str, units: Sequence[Unit]) -> Iterator[str]:
    """The plan has the units that the job, prompts and identities of run.json give, in their order.

    Of a run that is not finished the plan may lack some, or be missing: units that are set aside and succeed after all add units
    to later stages, which the next driver plans.
    """
    path = store.paths.plan(stage)
    planned, given = [line["unit"] for line in store.planned(stage)], [unit.key for unit in units]
    if store.finished() is not None:
        for key in sorted(set(given).difference(planned)):
            yield f"{path}: unit {key} is not planned, and run.json gives it"
    for key in sorted(set(planned).difference(given)):
        yield f"{path}: unit {key} is planned, and run.json does not give it"
    common = set(planned).intersection(given)
    if [key for key in planned if key in common] != [key for key in given if key in common]:
        yield f"{path}: units stand in another order than run.json gives them"


def _duplicate_rows(store: RunStore, stages: Mapping[str, object]) -> Iterator[str]:
    """No row of the dataset stands twice, by the columns that its schema names as key."""
    for name, schema in store.schemas.items():
        columns = _metadata(schema, "key").split(",")
        rows = pa.concat_tables([schema.empty_table(), *(store.table(stage, name) for stage in stages)]).select(columns)
        if rows.group_by(columns).aggregate([]).num_rows != rows.num_rows:
            yield f"table {name}: two rows with equal {', '.join(columns)}"


def _metadata(schema: pa.Schema, name: str) -> str:
    return str((schema.metadata or {}).get(name.encode(), b"none").decode())
