"""What the jobs of all protocols share: strictness, execution, composition, the fork point, the fields every job has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

SLUG = r"^[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?$"
LANGUAGE = r"^[a-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}$"

Kind = Literal["ordinary", "sensitivity"]
Language = Annotated[str, Field(pattern=LANGUAGE)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]


def _plain_path(path: str) -> str:
    # A path is shown, logged and stored: no character that a terminal or a line would act on.
    if not path.isprintable() or path != path.strip():
        raise PydanticCustomError("path", "a path without control characters or outer spaces")
    return path


PathText = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_plain_path)]


class Model(BaseModel):
    """Strict, frozen, nothing extra."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Execution(Model):
    """How the work is spread. Changes when a run ends and never what is in it, so nothing here enters a unit's key."""

    actors: int | None = Field(default=None, ge=1, le=4096, description="null (as many as fit the cores) or an integer 1..4096")
    threads: int = Field(default=1, ge=1, le=256, description="an integer 1..256: threads of each actor's decoder")
    batch: int = Field(default=16, ge=1, le=4096, description="an integer 1..4096: most units in one lease")
    deadline_s: float = Field(
        default=600.0,
        gt=0,
        le=604_800,
        allow_inf_nan=False,
        description="a number of seconds, over 0, at most 604800: longest time a lease may take",
    )
    memory_mib: int | None = Field(
        default=None,
        ge=64,
        le=1 << 30,
        description="null (its share of the host's memory) or an integer 64..1073741824: MiB an actor may claim once it is ready",
    )


class Composition(Model):
    """Prompts the catalog must hold, by language and by kind; what is not named must not occur (study 2.4.7)."""

    languages: dict[Language, Count] | None = Field(
        default=None, min_length=1, max_length=100, description="language tags such as en, each with an integer 0..1000000"
    )
    kinds: dict[Kind, Count] | None = Field(
        default=None, min_length=1, description="ordinary, sensitivity, each with an integer 0..1000000"
    )

    @model_validator(mode="after")
    def _sums_agree(self) -> Composition:
        if self.languages is not None and self.kinds is not None:
            by_language, by_kind = sum(self.languages.values()), sum(self.kinds.values())
            if by_language != by_kind:
                raise PydanticCustomError(
                    "sums",
                    "sums differ",
                    {"found": f"{by_language} prompts by language and {by_kind} by kind", "allowed": "equal sums"},
                )
        return self


class ForkPoint(Model):
    """The one (position, layer) whose aggregation is changed (study 2.4.1, 2.4.7)."""

    layer: int = Field(default=5, ge=0, le=1023, description="an integer 0..1023 and less than the checkpoint's layers")
    event: Literal["first_decode"] = Field(
        default="first_decode", description="first_decode: the step that consumes the first generated token"
    )


class Job(Model):
    """What every protocol's job has."""

    schema_version: int = Field(ge=1, le=1, description="1")
    name: str = Field(
        pattern=SLUG, description="1..64 of a-z, 0-9, - and _, with a letter or digit at both ends: it names the run directory"
    )
    protocol: str
    checkpoint: PathText = Field(
        default="builtin", description="builtin, or the path of a checkpoint directory (relative: to the job file)"
    )
    numerics: Literal["official", "fp32"] = Field(default="official", description="official, fp32")
    catalog: PathText = Field(description="path of a prompt catalog, inside the job file's folder or absolute")
    experiment_seed: int = Field(default=20260722, ge=0, le=2**63 - 1, description="an integer 0..2^63-1")
    composition: Composition | None = Field(default=None, description="null, or a mapping with languages, kinds or both")
    execution: Execution = Field(default=Execution(), description="a mapping of actors, threads, batch, deadline_s, memory_mib")

    def parameters(self) -> Mapping[str, Any]:
        """The protocol's parameters that decide a unit's bits, for its key.

        Not here: what a unit names itself (prompt, horizon, numerics, checkpoint identity), what only picks units (catalog,
        composition, name) and what only spreads them (execution).
        """
        raise NotImplementedError

    @classmethod
    def protocol_name(cls) -> str:
        """The protocol that jobs of this model name: the only value of their `protocol`."""
        return str(get_args(cls.model_fields["protocol"].annotation)[0])


Scheme = Literal["P32", "C", "A", "B"]
"""The four schemes of study 2.5."""


def _unique(schemes: tuple[Scheme, ...]) -> tuple[Scheme, ...]:
    for index, scheme in enumerate(schemes):
        if scheme in schemes[:index]:
            raise PydanticCustomError(
                "unique", "not unique", {"index": index, "found": f"{scheme} again", "allowed": "each scheme once"}
            )
    return schemes


# Strict(False) on the tuple alone: YAML has lists only.
Schemes = Annotated[
    tuple[Scheme, ...],
    Field(strict=False, min_length=1, description="a list of P32, C, A, B, each at most once, such as [A, B]"),
    AfterValidator(_unique),
]

Horizon = Annotated[int, Field(ge=1, le=65_536, description="an integer 1..65536: generated tokens")]

RequestSeeds = Annotated[
    int, Field(ge=1, le=1_000_000, description="an integer 1..1000000: request seeds a prompt, which are 0, 1, 2 and so on")
]
