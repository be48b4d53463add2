"""What ships under jobs/: it is valid as it is, and it is the study's cohort in number and kind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from schemas.catalog import Catalog, check_bindings, check_composition, load_catalog
from schemas.job import BreadthJob, CanonicalJob, IntermediatesJob, PersistentJob
from schemas.job_file import load_job

JOBS = Path(__file__).parents[2] / "jobs"
DEPTH = {"en-001": "why the sheep", "en-004": "Morning light filled the room", "zh-016": "朋友昨天打来电话"}


def breadth_catalog() -> Catalog:
    return load_catalog(JOBS / "prompts" / "breadth_50.tsv")


@pytest.mark.parametrize("path", sorted(JOBS.glob("*.yaml")), ids=lambda path: path.name)
def test_every_job_is_valid_with_its_catalog(path: Path) -> None:
    file = load_job(path)
    catalog = load_catalog(file.catalog)
    assert file.job.name == path.stem
    assert file.job.composition is not None
    check_composition(catalog, file.job.composition, job_file=str(path))


def test_breadth_is_the_studys_protocol() -> None:
    job = load_job(JOBS / "breadth.yaml").job
    assert isinstance(job, BreadthJob)
    assert (job.fork.layer, job.fork.scheme, job.horizons, job.experiment_seed) == (5, "B", (8, 16, 32), 20260722)


def test_the_breadth_cohort_has_the_studys_composition() -> None:
    prompts = breadth_catalog().prompts
    assert Counter((prompt.language, prompt.kind) for prompt in prompts) == {
        ("en", "ordinary"): 20,
        ("zh", "ordinary"): 20,
        ("en", "sensitivity"): 5,
        ("zh", "sensitivity"): 5,
    }


def test_breadth_ids_are_numbered_by_language() -> None:
    expected = [f"{language}-{number:03d}" for language in ("en", "zh") for number in range(1, 26)]
    assert [prompt.prompt_id for prompt in breadth_catalog().prompts] == expected


def test_texts_are_in_the_language_they_claim() -> None:
    for prompt in breadth_catalog().prompts:
        ideographs = sum("\u4e00" <= character <= "\u9fff" for character in prompt.text)
        assert (ideographs > 0) == (prompt.language == "zh"), prompt.prompt_id
        assert prompt.text.isascii() == (prompt.language == "en"), prompt.prompt_id


def test_texts_are_short_openings_in_one_line() -> None:
    for prompt in breadth_catalog().prompts:
        assert prompt.text == prompt.text.strip()
        assert "\n" not in prompt.text
        size = len(prompt.text.split()) if prompt.language == "en" else len(prompt.text)
        assert (3 <= size <= 15) if prompt.language == "en" else (6 <= size <= 25), prompt.prompt_id


def test_the_depth_prompts_are_the_studys_at_its_places() -> None:
    assert {prompt.prompt_id: prompt.text for prompt in load_catalog(JOBS / "prompts" / "depth_3.tsv").prompts} == DEPTH
    texts = [prompt.text for prompt in breadth_catalog().prompts]
    assert (texts.index(DEPTH["en-004"]) + 1, texts.index(DEPTH["zh-016"]) + 1) == (4, 41)  # catalog IDs 4 and 41 of study 2.4.7


@pytest.mark.parametrize("path", sorted((JOBS / "prompts").glob("*.tsv")), ids=lambda path: path.name)
def test_an_id_means_one_prompt_in_all_catalogs(path: Path) -> None:
    check_bindings(load_catalog(path), breadth_catalog().bindings)
    assert set(load_catalog(path).prompts) <= set(breadth_catalog().prompts)


def prompts_of(job: str) -> list[str]:
    return [prompt.text for prompt in load_catalog(load_job(JOBS / f"{job}.yaml").catalog).prompts]


def test_replay_has_the_studys_13_prompts_in_number() -> None:
    assert len(prompts_of("replay")) == 13
    assert set(DEPTH.values()) < set(prompts_of("replay"))


@pytest.mark.parametrize("job", ["sweep", "propagation"])
def test_single_conditions_are_about_the_sheep(job: str) -> None:
    assert prompts_of(job) == ["why the sheep"]


def test_the_persistent_protocol_has_768_trajectories() -> None:
    job = load_job(JOBS / "persistent.yaml").job
    assert isinstance(job, PersistentJob)
    assert len(prompts_of("persistent")) * job.request_seeds * len(job.schemes) == 768
    assert (job.horizon, job.experiment_seed) == (8, 20260722)


def test_the_canonical_protocol_has_12_trajectories() -> None:
    job = load_job(JOBS / "canonical.yaml").job
    assert isinstance(job, CanonicalJob)
    assert len(prompts_of("canonical")) * len(job.schemes) == 12


def test_the_intermediate_check_has_192_schedules_of_the_persistent_protocol() -> None:
    job, persistent = (load_job(JOBS / f"{name}.yaml").job for name in ("intermediates", "persistent"))
    assert isinstance(job, IntermediatesJob)
    assert len(prompts_of("intermediates")) * job.request_seeds == 192
    assert (job.scheme, job.experiment_seed) == ("C", persistent.experiment_seed)
    assert prompts_of("intermediates") == prompts_of("persistent")
