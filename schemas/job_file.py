"""From a job file on disk to a checked job, and from whatever is wrong with it to one line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from pydantic_core import ErrorDetails

from schemas.errors import InvalidInput
from schemas.job import PROTOCOLS, Job
from schemas.overrides import Override, apply_overrides, parse_override
from schemas.text_file import path_beside, shown
from schemas.yaml_file import load_mapping

BUILTIN = "builtin"


@dataclass(frozen=True)
class JobFile:
    """A job and where it was found, which its relative paths start from."""

    path: PurePath
    job: Job

    @property
    def catalog(self) -> Path:
        """The catalog's path. Raises InvalidInput for a relative one that leaves the job file's folder."""
        return path_beside(Path(self.path), "catalog", self.job.catalog)

    @property
    def checkpoint(self) -> str:
        """`builtin`, or the absolute path of a directory. Whether it is a checkpoint is found where it is opened."""
        if self.job.checkpoint == BUILTIN or Path(self.job.checkpoint).is_absolute():
            return self.job.checkpoint
        return str(Path(self.path.parent, self.job.checkpoint).absolute())

    def check_layer(self, key: str, layer: int, num_hidden_layers: int) -> None:
        """Raises InvalidInput naming `key` (such as fork.layer) unless the checkpoint has this layer."""
        if not 0 <= layer < num_hidden_layers:
            raise InvalidInput(
                str(self.path), key, str(layer), f"0..{num_hidden_layers - 1}, the layers of checkpoint {self.job.checkpoint}"
            )


def load_job(path: str | Path, overrides: Sequence[str] = ()) -> JobFile:
    """Read, override (`--set` options as typed) and check a job file. Raises InvalidInput with the first fault as one line."""
    path = Path(path)
    parsed = [parse_override(text) for text in overrides]
    data = apply_overrides(load_mapping(path), parsed)
    return JobFile(path, parse_job(data, file=str(path), overrides=parsed))


def parse_job(data: Mapping[str, Any], *, file: str, overrides: Sequence[Override] = ()) -> Job:
    """Check a job's data, as a file or a run's record (`Job.model_dump(mode="json")`) holds it.

    Raises InvalidInput with the first fault as one line, against `file` or the override that brought it.
    """
    protocol = data.get("protocol")
    model = PROTOCOLS.get(protocol) if isinstance(protocol, str) else None
    if model is None:
        raise _invalid(file, ("protocol",), shown(protocol), f"one of {', '.join(PROTOCOLS)}", overrides)
    try:
        return model.model_validate(data, context={"file": file})
    except ValidationError as error:
        # An unknown key first: a misspelt one is also a missing one, and the misspelling is the cause.
        first = min(error.errors(include_url=False), key=lambda detail: detail["type"] != "extra_forbidden")
        raise _one_line(first, model, file, overrides) from None


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of job files, all protocols."""
    _, schema = models_json_schema([(model, "validation") for model in PROTOCOLS.values()], title="Job file of runner")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": schema["title"],
        "oneOf": [{"$ref": f"#/$defs/{model.__name__}"} for model in PROTOCOLS.values()],
        "$defs": schema["$defs"],
    }


def _one_line(detail: ErrorDetails, model: type[BaseModel], file: str, overrides: Sequence[Override]) -> InvalidInput:
    context = detail.get("ctx", {})
    loc = tuple(str(part) for part in detail["loc"] if part != "[key]")
    if detail["type"] == "extra_forbidden":
        keys = list(_model_at(model, loc[:-1]).model_fields)
        near = difflib.get_close_matches(loc[-1], keys, n=1)
        hint = f"{near[0]} (nearest), or one of {', '.join(keys)}" if near else f"one of {', '.join(keys)}"
        return _invalid(file, loc, "an unknown key", hint, overrides)
    found = context.get("found") or ("nothing" if detail["type"] == "missing" else shown(detail["input"]))
    allowed = context.get("allowed") or _description(model, loc)
    return _invalid(file, (*loc, str(context["index"])) if "index" in context else loc, found, allowed, overrides)


def _invalid(file: str, loc: tuple[str, ...], found: str, allowed: str, overrides: Sequence[Override]) -> InvalidInput:
    for override in reversed(overrides):
        if loc[: len(override.path)] == override.path:
            file = override.option
            break
    return InvalidInput(file, ".".join(_key(part) for part in loc), found, allowed)


def _key(part: str) -> str:
    return part if part.isidentifier() or part.isdigit() else shown(part, 40)


def _description(model: type[BaseModel], loc: tuple[str, ...]) -> str:
    """Description of the deepest field on the way."""
    text = f"a mapping of {', '.join(model.model_fields)}"
    inner: type[BaseModel] | None = model
    for part in _names(loc):
        field = inner.model_fields.get(part) if inner is not None else None
        if field is None:
            break
        text = field.description or text
        inner = _inner_model(field.annotation)
    return text


def _model_at(model: type[BaseModel], loc: tuple[str, ...]) -> type[BaseModel]:
    for part in _names(loc):
        inner = _inner_model(model.model_fields[part].annotation)
        assert inner is not None, f"{'.'.join(loc)} refuses unknown keys, so it is a model"
        model = inner
    return model


def _names(loc: tuple[str, ...]) -> list[str]:
    """The names on the way, without the places in lists, which have the model of their list."""
    return [part for part in loc if not part.isdigit()]


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    candidates: Mapping[str, Any] | tuple[Any, ...] = (annotation, *get_args(annotation))
    return next((one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)), None)
