"""The command line on the embedded checkpoint, in this process and without Ray."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_job import CATALOG, JOB, Command, Ended

from runner.cli import main


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command in a directory with job.yaml and prompts.tsv."""
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "prompts.tsv").write_text(CATALOG, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str | Path) -> Ended:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return command


@pytest.fixture
def submitted(run: Command) -> Path:
    """A finished run."""
    assert run("submit", "job.yaml", "--address", "inline").code == 0
    return Path("runs/small")
