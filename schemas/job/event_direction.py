"""Event-direction jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from schemas.job.common import ForkPoint, Job, Model, PathText
from schemas.rules import LabelRules, load_rules
from schemas.text_file import path_beside


class ClassFork(ForkPoint):
    """The fork, whose branches are all classes of scheme B."""

    scheme: Literal["B"] = Field(default="B", description="B")


class Sample(Model):
    """Which branches are carried on and replayed: a stratified sample of the classes by provisional label (study 2.4.4)."""

    seed: int = Field(default=20260723, ge=0, le=2**63 - 1, description="an integer 0..2^63-1")
    per_label: int = Field(
        default=5, ge=1, le=100_000, description="an integer 1..100000: classes drawn of each label, fewer where there are fewer"
    )
    # Strict(False) on the tuple alone: YAML has lists only.
    labels: tuple[str, ...] | None = Field(
        default=None,
        strict=False,
        min_length=1,
        max_length=100,
        description="null (every label of the rules) or a list of labels of the rules, each once",
    )


def _read(value: Any, info: ValidationInfo) -> Any:
    """The rules themselves where a job file names the file that has them, so that a run's record holds all that it depends on."""
    job_file = (info.context or {}).get("file")
    if isinstance(value, str) and job_file is not None:
        return load_rules(path_beside(Path(job_file), "rules", value))
    return value


class EventDirectionJob(Job):
    """Event direction (study 2.4.4, 3.3, 3.4): what all classes of one fork say, and whether a sample of them says it again."""

    protocol: Literal["event_direction"] = Field(description="event_direction")
    fork: ClassFork = Field(default=ClassFork(), description="a mapping of layer, event, scheme")
    horizon: int = Field(default=8, ge=2, le=65_536, description="an integer 2..65536: generated tokens of every class")
    replay_horizon: int = Field(
        default=64, ge=2, le=65_536, description="an integer 2..65536, no less than horizon: generated tokens of a sampled class"
    )
    # Without rules every text has the default label, and there is one stratum.
    rules: Annotated[LabelRules, BeforeValidator(_read, json_schema_input_type=PathText | LabelRules)] = Field(
        default=LabelRules(schema_version=1),
        description="the path of a rule file, inside the job file's folder or absolute, or its content (default, rules)",
    )
    sample: Sample = Field(default=Sample(), description="a mapping of seed, per_label, labels")
    block: int = Field(default=60, ge=1, le=40_320, description="an integer 1..40320: classes in a unit")

    @model_validator(mode="after")
    def _agrees(self) -> EventDirectionJob:
        if self.replay_horizon < self.horizon:
            found = f"replay_horizon {self.replay_horizon} and horizon {self.horizon}"
            raise PydanticCustomError(
                "horizons", "horizons", {"found": found, "allowed": "a replay_horizon no less than horizon"}
            )
        labels = self.sample.labels or ()
        for label in labels:
            if label not in self.rules.labels or labels.count(label) > 1:
                allowed = f"labels of the rules, each once: {', '.join(self.rules.labels)}"
                raise PydanticCustomError("labels", "labels", {"found": f"sample.labels with {label}", "allowed": allowed})
        return self

    @property
    def strata(self) -> tuple[str, ...]:
        """Labels that are sampled."""
        return self.sample.labels or self.rules.labels

    def parameters(self) -> Mapping[str, Any]:
        # Horizons stand in the units, which have one each; rules, sample and block only pick units.
        return {"fork": self.fork.model_dump()}
