"""Continuations whose every MoE layer, at every position, adds in one order: a schedule (study 2.4.5, 2.4.6).

Native, identity and random schedules are rows of one batch; a row's bits do not depend on the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import kernels
from actors.executor import Session
from runner.protocols.orders import IDENTITY, draw_schedule
from runner.protocols.trajectory import STEP_CAPTURES, Trajectory, advance, prefill
from schemas.digest import routes_sha256, tokens_sha256
from schemas.unit import Unit


@dataclass(frozen=True)
class Condition:
    """A scheme under a schedule. orders: one a layer; () for native, which adds in ascending expert id."""

    scheme: Literal["native", "P32", "C", "A", "B"]
    schedule: Literal["native", "identity", "random"]
    request_seed: int | None
    orders: tuple[int, ...]

    def intervention(self, *captures: str) -> kernels.Intervention:
        """The condition at every layer, capturing STEP_CAPTURES and `captures`."""
        aggregation = {layer: (self.scheme, order) for layer, order in enumerate(self.orders)}
        return kernels.Intervention(aggregation=aggregation, capture=(*STEP_CAPTURES, *captures))


NATIVE = Condition("native", "native", None, ())


def identity(scheme: Literal["P32", "C", "A", "B"], config: kernels.Config) -> Condition:
    """The same-mode canonical reference of a scheme (study 2.7)."""
    return Condition(scheme, "identity", None, (IDENTITY,) * config.num_hidden_layers)


def random(
    scheme: Literal["P32", "C", "A", "B"], experiment_seed: int, prompt_id: str, request_seed: int, config: kernels.Config
) -> Condition:
    """A scheme under the schedule of a request seed, which is the same for all schemes."""
    orders = draw_schedule(experiment_seed, prompt_id, request_seed, config.num_hidden_layers, config.num_experts_per_tok)
    return Condition(scheme, "random", request_seed, orders)


def continue_under(
    decoder: kernels.Decoder, prompt: Sequence[int], conditions: Sequence[Condition], horizon: int
) -> list[Trajectory]:
    """`horizon` greedy tokens under each condition, all in one batch."""
    interventions = [condition.intervention() for condition in conditions]
    trajectories = prefill(decoder, [prompt] * len(conditions), interventions)
    for _ in range(horizon - 1):
        advance(decoder, trajectories, interventions)
    return trajectories


def trajectory_row(session: Session, unit: Unit, condition: Condition, trajectory: Trajectory) -> dict[str, Any]:
    """A row of persistent_trajectories or canonical_trajectories."""
    routes = trajectory.all_routes()
    return {
        "prompt_id": unit.prompt_id,
        "scheme": condition.scheme,
        "schedule": condition.schedule,
        "request_seed": condition.request_seed,
        "orders": condition.orders,
        "experts_per_token": session.checkpoint.config.num_experts_per_tok,
        "prompt_token_ids": trajectory.prompt,
        "token_ids": trajectory.tokens,
        "token_sha256": tokens_sha256(trajectory.tokens),
        "text": session.tokenizer.decode(trajectory.tokens),
        "logit_margins": trajectory.logit_margins,
        "routes_compared": routes.shape[0] * routes.shape[1],
        "routes_sha256": routes_sha256(routes),
        "router_margin_min": trajectory.router_margin_min(),
        "state_sha256": trajectory.state.sha256(),
        "unit_key": unit.key,
    }


def schedule_violations(rows: Iterable[Mapping[str, Any]], experiment_seed: int) -> list[str]:
    """Rows (prompt_id, scheme, request_seed, orders, experts_per_token) whose schedule is not the one that the generator draws.

    That is also the pairing over schemes: what every scheme has for a request seed is one and the same draw.
    """
    violations = []
    for row in rows:
        drawn = draw_schedule(
            experiment_seed, row["prompt_id"], row["request_seed"], len(row["orders"]), row["experts_per_token"]
        )
        if tuple(row["orders"]) != drawn:
            where = f"{row['prompt_id']}, scheme {row['scheme']}, request seed {row['request_seed']}"
            violations.append(f"{where}: the schedule is not the one that the generator draws for it")
    return violations
