"""Claims about the representative trace (study 3.2.1): what a table of stages must agree in, and what was seen at each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runner.audit.evidence import FILE, Evidence, Row
from runner.audit.ledger import UNPUBLISHED, Absent, Check, Claim, Tally, empirical, every, same, structural, together
from runner.protocols.common import processed_tokens
from runner.protocols.orders import draw_schedule
from schemas.job.persistent import PropagationJob
from schemas.tables import PROPAGATION_TRACES


@dataclass(frozen=True)
class Trace:
    """One trace. experts: the router layer's, native and candidate. ordinal: of the first token that differs, None where none
    does; agreeing: tokens before it that agree. margins: native and candidate.
    """

    label: str
    terms: int
    moe_linf: float
    post_mhc_linf: float
    router_linf: float
    logits_linf: float
    experts: tuple[frozenset[int], frozenset[int]]
    router_margins: tuple[float, float]
    logit_margins: tuple[float, float]
    first_tokens: tuple[int, int]
    ordinal: int | None
    agreeing: int
    routes_differing: int | None = None


@dataclass(frozen=True)
class PropagationFigures:
    """distances: captured pairs that differ in bits where they are apart. routes: traces with one order a layer,
    whose count of differing routes is that of the digests. drawn: traces under the schedule of the generator."""

    prompts: int
    traces: tuple[Trace, ...]
    distances: Tally | None = None
    routes: Tally | None = None
    drawn: Tally | None = None


def measure(evidence: Evidence) -> PropagationFigures:
    job = evidence.run.experiment.job
    assert isinstance(job, PropagationJob)
    rows = evidence.rows(PROPAGATION_TRACES.name)
    return PropagationFigures(
        prompts=len(evidence.prompts),
        traces=tuple(_trace(row) for row in rows),
        distances=Tally.of(
            (
                row[f"{kind}_linf"] == 0 or row[f"native_{digest}_sha256"] != row[f"candidate_{digest}_sha256"],
                row["prompt_id"],
                row[FILE],
            )
            for row in rows
            for kind, digest in (("moe", "moe_output"), ("post_mhc", "post_mhc"), ("logits", "logits"))
        ),
        routes=Tally.of((_routes(row, job), row["prompt_id"], row[FILE]) for row in rows),
        drawn=Tally.of((_drawn(row, job), row["prompt_id"], row[FILE]) for row in rows),
    )


def _trace(row: Row) -> Trace:
    tokens = list(zip(row["native_token_ids"], row["candidate_token_ids"], strict=False))
    differing = [place for place, (one, other) in enumerate(tokens) if one != other]
    return Trace(
        label=str(row["prompt_id"]),
        terms=int(row["experts_per_token"]),
        moe_linf=row["moe_linf"],
        post_mhc_linf=row["post_mhc_linf"],
        router_linf=row["router_linf"],
        logits_linf=row["logits_linf"],
        experts=(frozenset(row["native_experts"]), frozenset(row["candidate_experts"])),
        router_margins=(row["native_router_margin"], row["candidate_router_margin"]),
        logit_margins=(row["native_logit_margin"], row["candidate_logit_margin"]),
        first_tokens=tokens[0],
        ordinal=row["first_difference"],
        agreeing=differing[0] if differing else len(tokens),
        routes_differing=row["routes_differing"],
    )


def _routes(row: Row, job: PropagationJob) -> bool:
    equal = row["native_routes_sha256"] == row["candidate_routes_sha256"]
    said = {equal, row["routes_differing"] == 0, row["first_route_position"] is None, row["first_route_layer"] is None}
    return bool(
        len(said) == 1 and row["routes_compared"] == processed_tokens(row["position"] + 1, job.horizon) * len(row["orders"])
    )


def _drawn(row: Row, job: PropagationJob) -> bool:
    layers, terms = len(row["orders"]), row["experts_per_token"]
    return tuple(row["orders"]) == draw_schedule(job.experiment_seed, row["prompt_id"], job.request_seed, layers, terms)


def _experts(trace: Trace) -> Check:
    """Both sides select as many experts, so as many enter as leave."""
    native, candidate = trace.experts
    found = (len(native), len(candidate), len(candidate - native) - len(native - candidate))
    return same(found, (trace.terms, trace.terms, 0))


def _ordinal(trace: Trace) -> Check:
    """The first changed token comes after those that agree."""
    if trace.ordinal is None:
        return Check(f"{trace.agreeing} agree", "all agree", True)
    return same(trace.ordinal, trace.agreeing + 1, f"{trace.agreeing}+1")


def _each(look: Callable[[Trace], Check]) -> Callable[[PropagationFigures], Check | Absent]:
    return lambda figures: together((trace.label, look(trace)) for trace in figures.traces)


def _of_each(look: Callable[[Trace], str]) -> Callable[[PropagationFigures], str]:
    def figure(figures: PropagationFigures) -> str:
        return "; ".join(look(trace) for trace in figures.traces)

    return figure


def _numeric(trace: Trace) -> str:
    return (
        f"L-inf: MoE {trace.moe_linf:.9g}, post-mHC {trace.post_mhc_linf:.9g}, router {trace.router_linf:.9g}, "
        f"logits {trace.logits_linf:.9g}"
    )


def _router(trace: Trace) -> str:
    native, candidate = trace.experts
    entered, left = sorted(candidate - native), sorted(native - candidate)
    return f"{_ids(entered)} enter, {_ids(left)} leave; margins {_margins(trace.router_margins)}"


def _logits(trace: Trace) -> str:
    native, candidate = trace.first_tokens
    return f"first token {'the same' if native == candidate else 'another'}; margins {_margins(trace.logit_margins)}"


def _tokens(trace: Trace) -> str:
    return "no token changes" if trace.ordinal is None else f"first changed token: ordinal {trace.ordinal}"


def _ids(experts: Sequence[int]) -> str:
    return " ".join(map(str, experts)) or "none"


def _margins(margins: tuple[float, float]) -> str:
    return " and ".join(f"{margin:.9g}" for margin in margins)


TABLE = PROPAGATION_TRACES.name

CLAIMS: tuple[Claim[PropagationFigures], ...] = (
    structural("traces", "3.2.1", TABLE, "A trace a prompt", lambda one: same(len(one.traces), one.prompts)),
    structural("experts", "3.2.1", TABLE, "As many experts enter the selection as leave it", _each(_experts)),
    structural("ordinal", "3.2.1", TABLE, "All tokens before the first changed one agree", _each(_ordinal)),
    structural(
        "routes", "3.2.1", TABLE, "Routes are counted at every position and layer, and by digest", lambda one: every(one.routes)
    ),
    structural(
        "distances",
        "3.2.1",
        TABLE,
        "What is apart differs in bits",
        lambda one: UNPUBLISHED if one.distances is None else every(one.distances),
    ),
    structural("drawn", "2.4.5", TABLE, "The schedule is the one that the generator draws", lambda one: every(one.drawn)),
    empirical("numeric", "3.2.1", TABLE, "Differences at the last prompt position", _of_each(_numeric)),
    empirical("router", "3.2.1", TABLE, "The later layer's selection", _of_each(_router)),
    empirical("logits", "3.2.1", TABLE, "The logits after the prompt", _of_each(_logits)),
    empirical("tokens", "3.2.1", TABLE, "Where the continuation changes", _of_each(_tokens)),
)
