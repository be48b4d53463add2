"""Runs of every protocol on a random checkpoint: the structural claims hold, the empirical ones are measured."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tamper import copied

from runner.annotation.files import Annotation
from runner.audit import AUDITS, Ledger, across_runs, audit, every_run
from runner.run import Run, open_run
from schemas.errors import InvalidInput


@pytest.fixture(scope="module")
def ledger(study_runs: dict[str, Run]) -> Ledger:
    return audit(list(study_runs.values()))


def test_every_structural_claim_holds(ledger: Ledger) -> None:
    assert [(line.claim, line.fault) for line in ledger.failed] == []


def test_every_claim_of_every_protocol_is_in_the_ledger(ledger: Ledger) -> None:
    claims = {line.claim for line in ledger.entries}
    for one in AUDITS:
        assert {f"{one.protocol}.{claim.name}" for claim in (*every_run.CLAIMS, *one.claims)} <= claims
    assert {f"across_runs.{claim.name}" for claim in across_runs.CLAIMS} <= claims


def test_structural_claims_apply_where_there_is_something_to_look_at(ledger: Ledger) -> None:
    absent = {line.claim: line.found for line in ledger.entries if line.kind == "structural" and line.verdict == "not applicable"}
    names = {claim.rpartition(".")[2] for claim in absent}
    # Tables without tokens or forks; labels that nobody gave; stages after which none is left.
    assert names <= {"digests", "decoded", "encoded", "forked"} | {"moves", "agreement"} | {"carried"}


def test_empirical_claims_are_measured_beside_the_studys_figure(ledger: Ledger) -> None:
    lines = {line.claim: line for line in ledger.entries}
    axis = lines["persistent.axes.B"]
    assert (axis.kind, axis.verdict) == ("empirical", "measured")
    assert axis.beside == "native: route 192, tokens 172; canonical: route 192, tokens 114; of 192"
    assert axis.found.endswith("of 10")
    assert lines["sweep.basins.A"].beside == "10 texts"
    assert lines["breadth.separation"].beside == "8: 12/50, 16: 24/50, 32: 36/50"
    assert {line.verdict for line in ledger.entries if line.kind == "empirical"} <= {"measured", "not applicable"}


def test_evidence_stands_in_the_runs_own_table(ledger: Ledger, study_runs: dict[str, Run]) -> None:
    line = next(line for line in ledger.entries if line.claim == "sweep.pairs")
    run = study_runs["sweep"]
    assert (line.run, line.table, line.file) == (str(run.paths.root), "sweep_orders", str(run.paths.table("sweep_orders")))


def test_formulas_hold_for_this_geometry(ledger: Ledger, study_runs: dict[str, Run]) -> None:
    row = study_runs["post_mhc"].store.table("control", "post_mhc_units").to_pylist()[0]
    count = (row["layers"] - 3) + 3 * row["layers"]
    line = next(line for line in ledger.entries if line.claim == "post_mhc.vectors")
    assert line.found == f"{count}/{count} each"


def test_claims_of_protocols_without_a_run_are_not_applicable(study_runs: dict[str, Run]) -> None:
    ledger = audit([study_runs["canonical"]])
    others = [line for line in ledger.entries if line.claim.split(".")[0] not in ("canonical", "across_runs")]
    assert {line.verdict for line in others} == {"not applicable"}
    assert {line.found for line in others} == {"no such run"}
    assert ledger.holds


def test_two_runs_of_a_protocol_have_a_line_each(study_runs: dict[str, Run], tmp_path: Path) -> None:
    again = copied(study_runs["canonical"], tmp_path / "again")
    lines = [line for line in audit([study_runs["canonical"], again]).entries if line.claim == "canonical.identity"]
    assert [line.run for line in lines] == [str(study_runs["canonical"].paths.root), str(again.paths.root)]


def test_labels_of_people_are_accounted_for(study_runs: dict[str, Run], tmp_path: Path) -> None:
    run = copied(study_runs["event_direction"], tmp_path / "run")
    annotation = Annotation.of(run)
    blank = annotation.export()["form.tsv"].read_text("utf-8").splitlines()
    labels = itertools.cycle([("other", "other"), ("hiring", "hiring"), ("other", "hiring")])
    columns = blank[0].split("\t")
    lines = [blank[0]]
    for line, given in zip(blank[1:], labels, strict=False):
        cells = dict(zip(columns, line.split("\t"), strict=True)) | {"annotator_1": given[0], "annotator_2": given[1]}
        lines.append("\t".join(cells[column] for column in columns))
    form = tmp_path / "filled.tsv"
    form.write_text("\n".join(lines) + "\n", "utf-8")
    annotation.take(form, replace=False)
    ledger = audit([open_run(run.paths.root)])
    found = {line.claim: line for line in ledger.entries}
    assert ledger.holds
    assert found["event_direction.moves"].verdict == "holds"
    assert found["event_direction.agreement"].verdict == "holds"
    items = len(blank) - 1
    assert items >= 3
    assert found["event_direction.kappa"].found.startswith(f"{items - items // 3}/{items} agree")


def test_what_runs_have_in_common_is_compared(ledger: Ledger) -> None:
    lines = {line.claim: line for line in ledger.entries if line.claim.startswith("across_runs")}
    assert {line.verdict for line in lines.values()} == {"holds"}
    assert lines["across_runs.natives"].found == "2/2"
    assert lines["across_runs.identities"].found == "10/10"  # native and four schemes, of two prompts


def test_an_unfinished_run_is_no_evidence(study_runs: dict[str, Run], tmp_path: Path) -> None:
    run = copied(study_runs["canonical"], tmp_path / "run")
    run.paths.finished.unlink()
    with pytest.raises(InvalidInput, match="found a run that is unfinished, allowed: a finished run"):
        audit([run])


def test_without_its_checkpoint_texts_cannot_be_decoded_and_the_rest_holds(study_runs: dict[str, Run], tmp_path: Path) -> None:
    run = copied(study_runs["post_mhc"], tmp_path / "run")
    checkpoint = run.record.job["checkpoint"]
    record = run.paths.record.read_text("utf-8").replace(checkpoint, str(tmp_path / "gone"))
    run.paths.record.write_text(record, "utf-8")
    lines = {line.claim: line for line in audit([open_run(run.paths.root)]).entries}
    assert lines["post_mhc.decoded"].found == lines["post_mhc.encoded"].found == "the run's tokenizer is not at hand"
    assert lines["post_mhc.values"].verdict == "not applicable"
    assert lines["post_mhc.vectors"].verdict == "holds"
