"""docs/study.md and `make study` speak of everything there is."""

from __future__ import annotations

import re
from pathlib import Path

from runner.protocols import PROTOCOLS
from runner.support import TABLES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "study.md").read_text("utf-8")
JOBS = {path.stem for path in (ROOT / "jobs").glob("*.yaml")}


def rows() -> dict[str, str]:
    """Job -> its line of the table of jobs."""
    return {line.split("`")[1]: line for line in PAGE.splitlines() if re.match(r"\| `\w+` \|", line)}


def test_every_job_has_a_line() -> None:
    assert rows().keys() == JOBS


def test_a_line_names_the_datasets_and_support_tables_of_its_protocol() -> None:
    for job, line in rows().items():
        datasets, support = (set(re.findall(r"`(\w+)`", cell)) for cell in line.split("|")[4:6])
        assert datasets == set(PROTOCOLS[job].schemas())
        assert support == {table.name for table in TABLES if table.protocol == job}


def test_make_study_runs_every_job() -> None:
    listed = re.search(r"^STUDY_JOBS := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert listed is not None
    assert sorted(listed[1].split()) == sorted(JOBS)
