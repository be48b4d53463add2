"""run.json: what a run is, written once when it starts. Whoever continues the run must mean the same."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

import kernels
from runner.plan import changed_fields
from runner.protocol import Experiment
from runner.storage import Storage
from schemas.catalog import Catalog, check_bindings
from schemas.errors import InvalidInput
from schemas.job import PROTOCOLS, Job
from schemas.text_file import shown

FORMAT = 3
"""Of the run directory as a whole (docs/formats.md, "Run directory"). Runs of earlier formats are not read."""

SPREADING = frozenset({"name", "catalog", "checkpoint", "composition", "execution"})
"""Keys of a job that say where things lie and how work is spread. Of catalog and checkpoint the content is compared instead."""


_MAPPINGS = frozenset({"job", "prompts", "schemas", "versions"})
"""Fields of a record that are mappings; the others, but for `format`, are texts."""


@dataclass(frozen=True)
class RunRecord:
    """The content of run.json.

    job: the job with its defaults and overrides; its catalog is the run's own copy, its checkpoint "builtin" or an absolute path.
    prompts: prompt ID -> SHA-256 of its text, in catalog order. checkpoint_content: digest of the checkpoint's files read whole,
    None of one whose weights take too long to read (actors.content), and where nobody has to know it. schemas: table -> version.
    versions: what wrote the record.
    """

    format: int
    job: Mapping[str, Any]
    prompts: Mapping[str, str]
    catalog_digest: str
    checkpoint_identity: str
    tokenizer_identity: str
    schemas: Mapping[str, str]
    versions: Mapping[str, str]
    created: str
    checkpoint_content: str | None = None

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        catalog: Catalog,
        schemas: Mapping[str, pa.Schema],
        *,
        checkpoint: str,
        checkpoint_content: str | None,
    ) -> RunRecord:
        """The record of a run that starts now."""
        return cls(
            format=FORMAT,
            job=experiment.job.model_dump(mode="json") | {"catalog": "catalog.tsv", "checkpoint": checkpoint},
            prompts=catalog.bindings,
            catalog_digest=catalog.digest,
            checkpoint_identity=experiment.checkpoint_identity,
            tokenizer_identity=experiment.tokenizer_identity,
            schemas={name: schema.metadata[b"schema_version"].decode() for name, schema in sorted(schemas.items())},
            versions={"python": platform.python_version(), "pyarrow": pa.__version__, "kernels": kernels.BUILD_ID},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            checkpoint_content=checkpoint_content,
        )

    @classmethod
    def read(cls, storage: Storage, path: PurePath) -> RunRecord:
        """The record at `path`. Raises InvalidInput when it is not one, or of a format this release does not know."""
        try:
            content = json.loads(storage.read(path))
            if isinstance(content, dict) and content.get("format") != FORMAT:
                allowed = f"{FORMAT}, the only one that this release reads"
                raise InvalidInput(str(path), "format", shown(content.get("format")), allowed)
            record = cls(**content)
        except FileNotFoundError:
            raise InvalidInput(str(path), "", "no such file", "the record of a run") from None
        except IsADirectoryError:
            raise InvalidInput(str(path), "", "a directory", "the record of a run") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInput(str(path), "", f"no run record ({error})", "run.json as runner writes it") from None
        for name, value in content.items():
            if name == "checkpoint_content" and value is None:
                continue
            if name != "format" and not isinstance(value, dict if name in _MAPPINGS else str):
                raise InvalidInput(str(path), name, json.dumps(value), "a mapping" if name in _MAPPINGS else "a text")
        return record

    def to_bytes(self) -> bytes:
        return (json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n").encode()

    def parsed_job(self, path: PurePath) -> Job:
        """The job as its model. Raises InvalidInput, naming `path`, when this release does not accept it."""
        try:
            return PROTOCOLS[self.job["protocol"]].model_validate(self.job)
        except (ValidationError, KeyError, TypeError) as error:  # a protocol may be no name, nor anything that can be looked up
            raise InvalidInput(str(path), "job", str(error).splitlines()[0], "a job of this release") from None

    def require_same(self, now: RunRecord, catalog: Catalog, *, job_file: str, run_record: str, work_left: bool) -> None:
        """Raises InvalidInput naming the first thing in which what is asked for now differs from what the run began as.

        In the order of likelihood: prompts, job, checkpoint, then what an upgrade of the package may have changed. Of a run with
        work left also the weights, where both records say them, and the kernels, since no two of its units may come from
        different arithmetic; a finished one is only read.
        """
        check_bindings(catalog, self.prompts)
        if now.catalog_digest != self.catalog_digest:
            found = _prompts_found(self.prompts, now.prompts)
            raise InvalidInput(catalog.file, "", found, f"the {len(self.prompts)} prompts that the run was started with")
        mine = {key: value for key, value in self.job.items() if key not in SPREADING}
        theirs = {key: value for key, value in now.job.items() if key not in SPREADING}
        for key in changed_fields(mine, theirs):
            allowed = f"{_at(mine, key)}, as the run was started (another --run-dir starts another run)"
            raise InvalidInput(job_file, key, _at(theirs, key), allowed)
        for what, began, found in (
            ("checkpoint", self.checkpoint_identity, now.checkpoint_identity),
            ("tokenizer of the checkpoint", self.tokenizer_identity, now.tokenizer_identity),
        ):
            if began != found:
                raise InvalidInput(job_file, what, f"identity {found[:16]}…", f"{began[:16]}…, which the run was started with")
        weights, weights_now = self.checkpoint_content, now.checkpoint_content
        if work_left and weights is not None and weights_now is not None and weights != weights_now:
            allowed = f"{weights[:16]}…, which the run was started with"
            raise InvalidInput(job_file, "checkpoint", f"other weights: content {weights_now[:16]}…", allowed)
        for key in changed_fields(self.schemas, now.schemas):
            raise InvalidInput(
                run_record, f"schemas.{key}", _at(self.schemas, key), f"{_at(now.schemas, key)}, which is installed"
            )
        for what, why, decides in (
            ("pyarrow", "another release writes other bytes for equal rows", True),
            ("kernels", "what is left has to be done by the build that did the rest", work_left),
        ):
            began, installed = self.versions.get(what, "nothing"), now.versions[what]
            if decides and began != installed:
                raise InvalidInput(run_record, f"versions.{what}", str(began), f"{installed}, which is installed: {why}")


def _prompts_found(recorded: Mapping[str, str], now: Mapping[str, str]) -> str:
    for difference, ids in (("added", now.keys() - recorded.keys()), ("left out", recorded.keys() - now.keys())):
        if ids:
            return f"{len(now)} prompts, {len(ids)} of them {difference}, such as {min(ids)}"
    return "the same prompts in another order or with another language or kind"


def _at(mapping: Mapping[str, Any], dotted: str) -> str:
    value: Any = mapping
    for name in dotted.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return "nothing"
        value = value[name]
    return json.dumps(value, ensure_ascii=False)
