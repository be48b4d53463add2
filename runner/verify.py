"""Is a run what its logs say? Every file hashed again, every key computed again, every check of the protocol made again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from runner.checked_json import canonical_json
from runner.dataset import read_part
from runner.finding import told
from runner.protocol import Experiment, ExperimentProtocol
from runner.store import RunStore
from runner.verdict import contradictions
from schemas.digest import rows_sha256
from schemas.errors import InvalidInput
from schemas.unit import Unit


@dataclass(frozen=True)
class Verification:
    """faults: what is wrong, a line each. leftovers: what a kill left and the next driver sweeps.

    files: entries of the journal, or of a finished run its data files. digest: of the dataset, None before the run is finished.
    """

    units: int
    files: int
    bytes: int
    digest: str | None
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
        return Verification(0, 0, 0, None, (str(error),), ())


def _verify(store: RunStore, protocol: ExperimentProtocol, experiment: Experiment) -> Verification:
    mark = store.finished()
    stages = protocol.stages(experiment.job)
    on_disk = store.stages_on_disk()
    faults = [fault for stage in on_disk for fault in _plan_faults(store, stage)]
    faults += [
        f"{store.paths.record}: its job has no stage {stage}, which is on disk" for stage in on_disk if stage not in stages
    ]
    faults += [f"{path}: {told(store, path)}" for path in store.findings()]
    if mark is None:
        files, size, found = _journal_faults(store)
    else:
        files, size, found = len(mark.parts), sum(part.bytes for part in mark.parts), [*_part_faults(store)]
        faults += [f"{store.paths.finished}: {line}" for line in contradictions(store, stages, mark)]
    faults += found
    if not faults:  # these read the tables, so only tables that can be read
        faults += _duplicate_rows(store, on_disk)
        faults += [fault for stage in stages for fault in _unit_faults(store, stage, protocol.units(experiment, stage, store))]
        faults += protocol.check(experiment, store)
    return Verification(
        units=sum(len(store.units(stage)) for stage in on_disk),
        files=files,
        bytes=size,
        digest=store.dataset_digest(),
        faults=tuple(faults),
        leftovers=tuple(f"{path}: nothing names it" for path in store.orphans()),
    )


def _journal_faults(store: RunStore) -> tuple[int, int, list[str]]:
    """Entries of the journal, the bytes of their rows, and what is wrong with these."""
    entries, size, faults = 0, 0, []
    for entry in store.entries():
        entries += 1
        if entry.kind != "units":
            continue
        if set(entry.record["tables"]) != set(store.schemas):
            path = store.paths.entry(entry.number)
            faults.append(f"{path}: tables {sorted(entry.record['tables'])} instead of {sorted(store.schemas)}")
            continue
        size += sum(about["bytes"] for about in entry.record["tables"].values())
        try:
            store.check_entry(entry)
        except InvalidInput as error:
            faults.append(str(error))
    return entries, size, faults


def _part_faults(store: RunStore) -> Iterator[str]:
    """Every data file is there and has the bytes, rows and schema that the mark and the protocol say."""
    mark = store.finished()
    for part in [] if mark is None else mark.parts:
        path = part.path(store.paths)
        if part.table not in store.schemas:
            yield f"{path}: a table {part.table}, which the protocol has not"
            continue
        try:
            rows = read_part(store.storage, store.paths, part)
        except InvalidInput as error:
            yield str(error)
            continue
        if not rows.schema.equals(store.schemas[part.table], check_metadata=True):
            found, allowed = _metadata(rows.schema, "schema_version"), _metadata(store.schemas[part.table], "schema_version")
            yield f"{path}: not of its schema (version {found}, the protocol declares {allowed})"
            continue
        if rows.num_rows != part.rows:
            yield f"{path}: {rows.num_rows} rows instead of {part.rows}"
        elif (found := rows_sha256(rows)) != part.rows_sha256:
            yield f"{path}: rows with the SHA-256 {found} instead of {part.rows_sha256}"


def _plan_faults(store: RunStore, stage: str) -> Iterator[str]:
    """Keys are the hashes of their pre-images, each once, and nothing is committed that was not planned."""
    if stage not in store.plans():
        yield f"{store.paths.journal}: stage {stage} has results and no plan"
        return
    path = f"{store.paths.plans}: stage {stage}"
    seen: set[str] = set()
    for line in store.planned(stage):
        key = hashlib.sha256(canonical_json(line["meaning"]).encode()).hexdigest()
        if key != line["unit"]:
            yield f"{path}: unit {line['unit']} has a pre-image with the key {key}"
        if line["unit"] in seen:
            yield f"{path}: unit {line['unit']} stands twice"
        seen.add(line["unit"])
    if len(seen) != store.plans()[stage].units:
        yield f"{path}: {len(seen)} units instead of {store.plans()[stage].units}"
    for unit in sorted(store.units(stage) - seen):
        yield f"{store.paths.journal}: unit {unit} of stage {stage} is committed and not planned"


def _unit_faults(store: RunStore, stage: str, units: Sequence[Unit]) -> Iterator[str]:
    """The plan has the units that the job, prompts and identities of run.json give, in their order.

    Of a run that is not finished the plan may lack some, or be missing: units that are set aside and succeed after all add units
    to later stages, which the next driver plans.
    """
    if stage not in store.plans():
        return
    path = f"{store.paths.plans}: stage {stage}"
    planned, given = store.planned_keys(stage), [unit.key for unit in units]
    if store.finished() is not None:
        for key in sorted(set(given).difference(planned)):
            yield f"{path}: unit {key} is not planned, and run.json gives it"
    for key in sorted(set(planned).difference(given)):
        yield f"{path}: unit {key} is planned, and run.json does not give it"
    common = set(planned).intersection(given)
    if [key for key in planned if key in common] != [key for key in given if key in common]:
        yield f"{path}: units stand in another order than run.json gives them"


def _duplicate_rows(store: RunStore, stages: Sequence[str]) -> Iterator[str]:
    """No row of the dataset stands twice, by the columns that its schema names as key."""
    for name, schema in store.schemas.items():
        columns = _metadata(schema, "key").split(",")
        rows = pa.concat_tables([schema.empty_table(), *(store.table(stage, name) for stage in stages)]).select(columns)
        if rows.group_by(columns).aggregate([]).num_rows != rows.num_rows:
            yield f"table {name}: two rows with equal {', '.join(columns)}"


def _metadata(schema: pa.Schema, name: str) -> str:
    return str((schema.metadata or {}).get(name.encode(), b"none").decode())
