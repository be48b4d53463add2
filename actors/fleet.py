"""Admission: workers whose results are to be compared must run the same arithmetic on the same weights.

Weights are compared by headers and lengths, and by their digest where reports have it, which is where it is affordable.
CPU features and instruction sets may differ, since they change no bit (docs/determinism.md); package versions are reported only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from actors.executor import WorkerReport
from schemas.errors import ConformanceFinding, InvalidInput


def admit(reports: Sequence[WorkerReport]) -> None:
    """Require one kernel build, one checkpoint and one tokenizer of a fleet, in this order.

    Raises ConformanceFinding when builds differ and InvalidInput when checkpoints or tokenizers do; the message names the workers
    that differ from the majority (from the first worker, where there is none).
    """
    build = _difference(reports, lambda report: report.build_id)
    if build:
        raise ConformanceFinding(f"kernel builds differ: {build[0]}, {build[1]}; install the same build on every host")
    for what, key, value in (
        ("checkpoint", "identity", lambda report: report.checkpoint_identity),
        ("checkpoint", "content", lambda report: report.checkpoint_content),
        ("tokenizer", "identity", lambda report: report.tokenizer_identity),
    ):
        difference = _difference(reports, value)
        if difference:
            raise InvalidInput(what, key, *difference)


def require_recorded(report: WorkerReport, *, build_id: str, checkpoint_identity: str, tokenizer_identity: str) -> None:
    """Require of a worker what its run was started with: a fleet that agrees may still be another one than the run's.

    Raises InvalidInput naming the worker, what it has and what the run has.
    """
    for what, recorded, found in (
        ("kernel build", build_id, report.build_id),
        ("checkpoint", checkpoint_identity, report.checkpoint_identity),
        ("tokenizer", tokenizer_identity, report.tokenizer_identity),
    ):
        if recorded != found:
            raise InvalidInput(f"{report.worker} on {report.host}", what, found, f"{recorded}, which the run was started with")


def _difference(all_reports: Sequence[WorkerReport], value: Callable[[WorkerReport], str | None]) -> tuple[str, str] | None:
    """(who differs and what they have, what the others have), or None when all agree that say something."""
    reports = [report for report in all_reports if value(report) is not None]
    counts = Counter(value(report) for report in reports)
    if len(counts) <= 1:
        return None
    usual = counts.most_common(1)[0][0]  # the first seen of equals
    odd = [f"{report.worker} on {report.host} has {str(value(report))[:12]}" for report in reports if value(report) != usual]
    same = [f"{report.worker} on {report.host}" for report in reports if value(report) == usual]
    return ", ".join(odd), f"{str(usual)[:12]} as {', '.join(same)}"
