"""What the protocols share: how a unit says what it depends on, what a worker must find before it executes one, and the demands
that most of them make of a job and its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import kernels
from actors.executor import Session
from runner.protocol import Experiment
from schemas.catalog import Prompt
from schemas.errors import ConformanceFinding, InvalidInput
from schemas.job_file import JobFile
from schemas.table import TableSpec
from schemas.unit import Unit


def shared_meaning(experiment: Experiment, specs: Sequence[TableSpec]) -> dict[str, Any]:
    """The part of a unit's meaning that all units of a run share: protocol, parameters, numerics, identities, table versions."""
    job = experiment.job
    return {
        "protocol": job.protocol,
        "parameters": job.parameters(),
        "numerics": job.numerics,
        "checkpoint_identity": experiment.checkpoint_identity,
        "tokenizer_identity": experiment.tokenizer_identity,
        "schema_versions": {spec.name: spec.version for spec in specs},
    }


def prompt_meaning(prompt: Prompt) -> dict[str, Any]:
    """The part that names the prompt. Language and kind stand in the rows, so they are part of what the rows mean."""
    return {
        "prompt_id": prompt.prompt_id,
        "prompt_sha256": prompt.sha256,
        "language": prompt.language,
        "kind": prompt.kind,
    }


def processed_tokens(prompt_tokens: int, horizon: int) -> int:
    """Positions that a prompt of so many tokens needs for `horizon` generated tokens; the last one is not processed."""
    return prompt_tokens + horizon - 1


def check_job(job: JobFile, config: kernels.Config) -> None:
    """Raises InvalidInput for numerics in which no scheme is defined, and for a checkpoint that leaves no order to choose."""
    file = str(job.path)
    if job.job.numerics != "official":
        allowed = "official: a scheme is defined by where it rounds, fp32 rounds nowhere"
        raise InvalidInput(file, "numerics", job.job.numerics, allowed)
    if config.num_experts_per_tok < 2:
        raise InvalidInput(file, "checkpoint", "1 expert a token", "at least 2, or there is no order to change")


def check_positions(job: JobFile, key: str, config: kernels.Config, prompt_tokens: Mapping[str, int], horizon: int) -> None:
    """Raises InvalidInput naming `key` when a prompt and its generated tokens don't fit the checkpoint's positions."""
    for prompt, tokens in prompt_tokens.items():
        if processed_tokens(tokens, horizon) > config.max_position_embeddings:
            allowed = f"{config.max_position_embeddings} positions in all, which is what the checkpoint has"
            raise InvalidInput(str(job.path), key, f"{horizon} after the {tokens} tokens of prompt {prompt}", allowed)


def require_planned(session: Session, units: Sequence[Unit]) -> None:
    """Raises ConformanceFinding unless the worker has the checkpoint and numerics that the units were planned for."""
    for unit in units:
        for what, planned, found in (
            ("checkpoint", unit.meaning["checkpoint_identity"], session.checkpoint.identity),
            ("numerics", unit.meaning["numerics"], session.decoder.numerics),
        ):
            if planned != found:
                raise ConformanceFinding(f"{unit.prompt_id}: planned for {what} {planned}, the worker has {found}")


def encode(session: Session, unit: Unit, horizon: int) -> list[int]:
    """Token IDs of the unit's prompt. Raises InvalidInput when they and `horizon` generated tokens don't fit the checkpoint."""
    tokens = session.tokenizer.encode(unit.payload["text"])
    positions = session.checkpoint.config.max_position_embeddings
    if not tokens or processed_tokens(len(tokens), horizon) > positions:
        allowed = f"at least 1, and with the horizon at most {positions} positions"
        raise InvalidInput(f"prompt {unit.prompt_id}", "text", f"{len(tokens)} tokens", allowed)
    return tokens
