"""Everything that can be found wrong with a job before the first unit of it runs."""

from __future__ import annotations

import os
from dataclasses import dataclass

import kernels
from actors.tokenizer import CheckpointTokenizer
from runner.protocol import Experiment, ExperimentProtocol
from runner.protocols import PROTOCOLS
from schemas.catalog import Catalog, check_composition, load_catalog
from schemas.errors import InvalidInput
from schemas.job_file import JobFile
from schemas.text_file import shown


@dataclass(frozen=True)
class Prepared:
    """A job whose every input was found to be usable."""

    job_file: JobFile
    catalog: Catalog
    protocol: ExperimentProtocol
    experiment: Experiment


def prepare(job_file: JobFile, catalog: Catalog | None = None) -> Prepared:
    """Open and check what a job names: catalog, checkpoint, tokenizer, every prompt, the protocol's own demands.

    catalog: that of a run, which has a copy. Raises InvalidInput with the first fault.
    """
    instruction_set()
    job = job_file.job
    catalog = catalog or load_catalog(job_file.catalog)
    if job.composition is not None:
        check_composition(catalog, job.composition, job_file=str(job_file.path))
    checkpoint = open_checkpoint(job_file.checkpoint)
    tokenizer = CheckpointTokenizer(checkpoint.directory, checkpoint_vocab_size=checkpoint.config.vocab_size)
    tokens = {prompt.prompt_id: len(tokenizer.encode(prompt.text)) for prompt in catalog.prompts}
    for prompt_id, count in tokens.items():
        if count == 0:
            raise InvalidInput(catalog.file, prompt_id, "no token", "a text that gives at least one token")
    protocol = PROTOCOLS[job.protocol]
    protocol.preflight(job_file, checkpoint.config, tokens)
    experiment = Experiment(job, catalog.prompts, checkpoint.identity, tokenizer.identity)
    return Prepared(job_file, catalog, protocol, experiment)


def instruction_set() -> str:
    """The kernels that this machine runs. Raises InvalidInput when RUNNER_ISA names others."""
    try:
        return kernels.instruction_set()
    except kernels.KernelError:
        found, allowed = shown(os.environ.get("RUNNER_ISA")), "scalar, avx2, avx512 or avx512_bf16, as far as this CPU has them"
        raise InvalidInput("environment", "RUNNER_ISA", found, allowed) from None


def open_checkpoint(checkpoint: str) -> kernels.Checkpoint:
    """The checkpoint in a directory, or the embedded one for "builtin". Raises InvalidInput with its first fault."""
    try:
        return kernels.Checkpoint.open(kernels.builtin_checkpoint() if checkpoint == "builtin" else checkpoint)
    except kernels.CheckpointError as error:
        raise InvalidInput(error.file, error.key, error.found, error.allowed) from None
