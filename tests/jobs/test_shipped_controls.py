"""The shipped jobs of both substitutions and of event direction are the study's in everything but the checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.protocols.post_mhc_execution import vectors_compared
from schemas.catalog import check_bindings, load_catalog
from schemas.job import EventDirectionJob, PersistentStateJob, PostMhcJob
from schemas.job_file import load_job

JOBS = Path(__file__).parents[2] / "jobs"
FLASH_LAYERS = 43


def test_post_mhc_makes_the_studys_comparisons_on_43_layers() -> None:
    job = load_job(JOBS / "post_mhc.yaml", ["fork.structural_class=135"]).job
    assert isinstance(job, PostMhcJob)
    assert job.fork.structural_class == 135
    before, after = job.fork.layer, vectors_compared(FLASH_LAYERS, job.fork.layer, job.decode_inputs)
    assert (before, after, job.decode_inputs * FLASH_LAYERS, job.decode_inputs + 1) == (5, 339, 344, 9)


def test_persistent_state_makes_the_studys_comparisons_on_43_layers() -> None:
    job = load_job(JOBS / "persistent_state.yaml").job
    assert isinstance(job, PersistentStateJob)
    assert (job.fork.layer, (job.decode_inputs - 1) * FLASH_LAYERS, job.decode_inputs + 1) == (5, 301, 9)


@pytest.mark.parametrize("name", ["post_mhc", "persistent_state"])
def test_the_substitutions_have_the_studys_prompt(name: str) -> None:
    assert "why the sheep" in {prompt.text for prompt in load_catalog(load_job(JOBS / f"{name}.yaml").catalog).prompts}


def test_event_direction_has_the_studys_prompt_horizons_and_sample() -> None:
    file = load_job(JOBS / "event_direction.yaml")
    job = file.job
    assert isinstance(job, EventDirectionJob)
    assert [prompt.text for prompt in load_catalog(file.catalog).prompts] == ["朋友昨天打来电话"]
    assert (job.fork.layer, job.horizon, job.replay_horizon) == (5, 8, 64)
    assert (job.sample.seed, job.sample.per_label) == (20260723, 5)
    assert job.rules.labels == ("layoffs", "hiring", "other")
    assert job.strata[:2] == ("layoffs", "hiring")


def test_the_friends_id_means_the_same_prompt_in_all_catalogs() -> None:
    breadth = load_catalog(JOBS / "prompts" / "breadth_50.tsv")
    check_bindings(load_catalog(JOBS / "prompts" / "friend_1.tsv"), breadth.bindings)
