"""Claims about every run, whatever its protocol: nothing is missing, nothing was changed, texts and digests are those of the
tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import kernels
from runner.audit.evidence import FILE, Evidence
from runner.audit.ledger import Absent, Check, Claim, Tally, every, structural
from runner.verify import verify
from schemas.digest import tokens_sha256
from schemas.errors import InvalidInput

TOKENS = "token_ids"


@dataclass(frozen=True)
class RunFigures:
    """units: that the job asks for, and are committed. unasked: committed or planned ones that it does not ask for. meant: rows
    that say what their unit means. forked: rows whose fork is where and what it must be. faults: of `runner verify`. digests,
    texts: of generated tokens, recomputed. prompts: token IDs of prompts, encoded again. texts and prompts are None without the
    run's tokenizer.
    """

    units: Tally
    unasked: int
    meant: Tally
    forked: Tally
    faults: tuple[str, ...]
    digests: Tally
    texts: Tally | None
    prompts: Tally | None


def measure(evidence: Evidence) -> RunFigures:
    """Raises InvalidInput for files that cannot be read, which `faults_of` names."""
    run = evidence.run
    asked: list[tuple[bool, str, str]] = []
    unasked = 0
    for stage in run.stages():
        keys = [unit.key for unit in run.protocol.units(run.experiment, stage, run.store)]
        committed, planned = run.store.units(stage), set(run.store.planned_keys(stage))
        log = str(run.paths.plans)
        asked += [(key in committed & planned, f"unit {key} of stage {stage} is not committed", log) for key in keys]
        unasked += len((committed | planned) - set(keys))
    tokenizer = evidence.tokenizer
    return RunFigures(
        units=Tally.of(asked),
        unasked=unasked,
        meant=Tally.of(_meant(evidence)),
        forked=Tally.of(_forked(evidence)),
        faults=faults_of(evidence),
        digests=Tally.of(_digests(evidence)),
        texts=None if tokenizer is None else Tally.of(_texts(evidence)),
        prompts=None if tokenizer is None else Tally.of(_prompts(evidence)),
    )


def faults_of(evidence: Evidence) -> tuple[str, ...]:
    """What `runner verify` has against the run."""
    run = evidence.run
    try:
        return verify(run.store, run.protocol, run.experiment).faults
    except LookupError as error:  # a check follows a row to another one that is not there
        return (f"a row without the one it belongs to: {error}",)


def unreadable(evidence: Evidence, error: InvalidInput) -> Check:
    """What is wrong with a run that cannot be read."""
    faults = faults_of(evidence) or (str(error),)
    return Check(f"{len(faults)} faults", "0 faults", False, faults[0])


def _meant(evidence: Evidence) -> Iterator[tuple[bool, str, str]]:
    """Rows say of themselves what their unit means: its prompt, and whatever else has the name of a column."""
    run = evidence.run
    for stage in run.stages():
        units = {line["unit"]: line["meaning"] | {"prompt_id": line["prompt_id"]} for line in run.store.planned(stage)}
        for table in run.store.schemas:
            for row in evidence.rows(table, stage):
                meaning = _columns(units.get(row["unit_key"], {}))
                other = next((name for name, value in meaning.items() if name in row and row[name] != value), "")
                what = f"{table}: {other} is not what the unit means" if meaning else f"{table}: a row of another unit"
                yield bool(meaning) and not other, what, row[FILE]


def _forked(evidence: Evidence) -> Iterator[tuple[bool, str, str]]:
    """A forked step consumes the first generated token, right after the prompt, and a class's branch is its lower order."""
    for table, schema in evidence.run.store.schemas.items():
        if "fork_position" not in schema.names:
            continue
        side = "native_" if "native_token_ids" in schema.names else ""
        for row in evidence.rows(table):
            place = (row["fork_position"], row["fork_token"])
            right = place == (len(row["prompt_token_ids"]), row[side + TOKENS][0])
            if "fork_experts" in row:
                classes = kernels.structural_classes(len(row["fork_experts"]))
                right &= row.get("structural_classes", len(classes)) == len(classes)
                if "branch_order" in row:
                    number = row["structural_class"]
                    right &= 0 <= number < len(classes) and row["branch_order"] == classes[number][0]
            yield bool(right), f"{table}: prompt {row['prompt_id']}", row[FILE]


def _prompts(evidence: Evidence) -> Iterator[tuple[bool, str, str]]:
    tokenizer = evidence.tokenizer
    if tokenizer is None:
        return
    encoded = {prompt.prompt_id: tokenizer.encode(prompt.text) for prompt in evidence.run.experiment.prompts}
    for table, schema in evidence.run.store.schemas.items():
        if "prompt_token_ids" in schema.names:
            for row in evidence.rows(table):
                right = row["prompt_token_ids"] == encoded.get(row["prompt_id"])
                yield right, f"{table}: prompt {row['prompt_id']}", row[FILE]


def _columns(meaning: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a meaning that a row may repeat, under the columns' names."""
    parameters = meaning.get("parameters", {})
    named = {name: value for name, value in (parameters | meaning).items() if not isinstance(value, dict | list)}
    return named | ({"fork_layer": parameters["fork"]["layer"]} if "fork" in parameters else {})


def _digests(evidence: Evidence) -> Iterator[tuple[bool, str, str]]:
    for table, side in _sides(evidence, "token_sha256"):
        for row in evidence.rows(table):
            right = row[f"{side}token_sha256"] == tokens_sha256(row[side + TOKENS])
            yield right, f"prompt {row['prompt_id']}: {side}token_sha256 is not the digest of {side}{TOKENS}", row[FILE]


def _texts(evidence: Evidence) -> Iterator[tuple[bool, str, str]]:
    tokenizer = evidence.tokenizer
    if tokenizer is None:
        return
    for table, side in _sides(evidence, "text"):
        for row in evidence.rows(table):
            right = row[f"{side}text"] == tokenizer.decode(row[side + TOKENS])
            yield right, f"prompt {row['prompt_id']}: {side}text is not what {side}{TOKENS} say", row[FILE]


def _sides(evidence: Evidence, column: str) -> Iterator[tuple[str, str]]:
    """(table, prefix) where prefix + token_ids has prefix + column beside it: "", "native_", "branch_" and so on."""
    for name, schema in evidence.run.store.schemas.items():
        for field in schema.names:
            side = field.removesuffix(TOKENS)
            if field.endswith(TOKENS) and side + column in schema.names:
                yield name, side


def _verified(figures: RunFigures) -> Check:
    return Check(f"{len(figures.faults)} faults", "0 faults", not figures.faults, *figures.faults[:1])


def _complete(figures: RunFigures) -> Check | Absent:
    check = every(figures.units)
    if not isinstance(check, Check) or not figures.unasked:
        return check
    more = f"{figures.unasked} units that the job does not ask for"
    return Check(f"{check.found}, {more}", check.expected, False, check.fault or more, check.file)


def _with_tokenizer(tally: Tally | None) -> Check | Absent:
    return Absent("the run's tokenizer is not at hand") if tally is None else every(tally)


CLAIMS: tuple[Claim[RunFigures], ...] = (
    structural("units", "A.3", "", "Every unit that the job asks for is committed, and no other", _complete),
    structural("verified", "A.3", "", "The run is what its logs say, and its stages agree", _verified),
    structural("meant", "2.8", "", "Every row says what its unit means", lambda one: every(one.meant)),
    structural(
        "forked",
        "2.4.7",
        "",
        "A fork is at the first generated token, and its classes are the algebra's",
        lambda one: every(one.forked),
    ),
    structural("digests", "3.4", "", "Token digests are those of the token IDs", lambda one: every(one.digests)),
    structural(
        "decoded",
        "2.8",
        "",
        "Texts are the token IDs decoded, whole, however many lines",
        lambda one: _with_tokenizer(one.texts),
    ),
    structural(
        "encoded", "2.1", "", "Prompts are their raw text encoded, nothing added", lambda one: _with_tokenizer(one.prompts)
    ),
)
