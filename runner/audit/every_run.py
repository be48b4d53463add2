"""Claims about every run, whatever its protocol: nothing is missing, nothing was changed, texts and digests are those of the
tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from runner.audit.evidence import FILE, Evidence
from runner.audit.ledger import Absent, Check, Claim, Tally, every, structural
from runner.verify import verify
from schemas.digest import tokens_sha256
from schemas.errors import InvalidInput

TOKENS = "token_ids"


@dataclass(frozen=True)
class RunFigures:
    """units: that the job asks for, and are committed. unasked: committed or planned ones that it does not ask for. faults: of
    `runner verify`. digests, texts: of generated tokens, recomputed; texts is None without the run's tokenizer.
    """

    units: Tally
    unasked: int
    faults: tuple[str, ...]
    digests: Tally
    texts: Tally | None


def measure(evidence: Evidence) -> RunFigures:
    """Raises InvalidInput for files that cannot be read, which `faults_of` names."""
    run = evidence.run
    asked: list[tuple[bool, str, str]] = []
    unasked = 0
    for stage in run.stages():
        keys = [unit.key for unit in run.protocol.units(run.experiment, stage, run.store)]
        committed, planned = run.store.units(stage), {str(line["unit"]) for line in run.store.planned(stage)}
        log = str(run.paths.commit_log(stage))
        asked += [(key in committed & planned, f"unit {key} of stage {stage} is not committed", log) for key in keys]
        unasked += len((committed | planned) - set(keys))
    tokenizer = evidence.tokenizer
    return RunFigures(
        units=Tally.of(asked),
        unasked=unasked,
        faults=faults_of(evidence),
        digests=Tally.of(_digests(evidence)),
        texts=None if tokenizer is None else Tally.of(_texts(evidence)),
    )


def faults_of(evidence: Evidence) -> tuple[str, ...]:
    """What `runner verify` has against the run."""
    run = evidence.run
    return verify(run.store, run.protocol, run.experiment).faults


def unreadable(evidence: Evidence, error: InvalidInput) -> Check:
    """What is wrong with a run that cannot be read."""
    faults = faults_of(evidence) or (str(error),)
    return Check(f"{len(faults)} faults", "0 faults", False, faults[0])


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


def _decoded(figures: RunFigures) -> Check | Absent:
    return Absent("the run's tokenizer is not at hand") if figures.texts is None else every(figures.texts)


CLAIMS: tuple[Claim[RunFigures], ...] = (
    structural("units", "A.3", "", "Every unit that the job asks for is committed, and no other", _complete),
    structural("verified", "A.3", "", "The run is what its logs say, and its stages agree", _verified),
    structural("digests", "3.4", "", "Token digests are those of the token IDs", lambda one: every(one.digests)),
    structural("decoded", "2.8", "", "Texts are the token IDs decoded, whole, however many lines", _decoded),
)
