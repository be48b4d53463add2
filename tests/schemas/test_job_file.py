"""Job files: each fault is one line with file, key, found and allowed; relative paths start from the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.errors import InvalidInput
from schemas.job import PROTOCOLS
from schemas.job_file import JobFile, json_schema, load_job, parse_job

TEXT = """\
schema_version: 1
name: small
protocol: breadth
catalog: prompts.tsv
composition: {languages: {en: 2}, kinds: {ordinary: 2}}
fork: {layer: 5}
horizons: [8, 16, 32]
execution: {threads: 1}
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "job.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(path: Path, *overrides: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        load_job(path, overrides)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    return caught.value


def test_a_job_file_is_read(write: Write) -> None:
    file = load_job(write(TEXT))
    assert (file.job.name, file.catalog, file.checkpoint) == ("small", file.path.parent / "prompts.tsv", "builtin")


@pytest.mark.parametrize(
    ("old", "new", "key", "found", "allowed"),
    [
        ("horizons:", "horizon:", "horizon", "an unknown key", "horizons (nearest), or one of schema_version, name"),
        ("{layer: 5}", "{lyaer: 5}", "fork.lyaer", "an unknown key", "layer (nearest), or one of layer, event, scheme, select"),
        ("{threads: 1}", "{gpus: 1}", "execution.gpus", "an unknown key", "one of actors, threads"),
        ("{layer: 5}", "{layer: five}", "fork.layer", "'five'", "an integer 0..1023"),
        ("{layer: 5}", "{layer: true}", "fork.layer", "true", "an integer 0..1023"),
        ("{layer: 5}", "5", "fork", "5", "a mapping of layer, scheme, event, select"),
        ("[8, 16, 32]", "[8, 16, 16]", "horizons.2", "16", "more than 16, the one before it"),
        ("[8, 16, 32]", "[8, x]", "horizons.1", "'x'", "a list of 1..64 integers 2..65536, strictly increasing"),
        ("[8, 16, 32]", "[1, 8]", "horizons.0", "1", "a list of 1..64 integers 2..65536, strictly increasing"),
        ("name: small", "name: ../small", "name", "'../small'", "1..64 of a-z, 0-9"),
        ("name: small\n", "", "name", "nothing", "1..64 of a-z, 0-9"),
        ("catalog: prompts.tsv\n", "", "catalog", "nothing", "path of a prompt catalog"),
        ("protocol: breadth", "protocol: breath", "protocol", "'breath'", "one of breadth"),
        ("protocol: breadth\n", "", "protocol", "nothing", "one of breadth"),
        ("protocol: breadth", "protocol: [breadth]", "protocol", "a list of 1", "one of breadth"),
        ("schema_version: 1", "schema_version: 2", "schema_version", "2", "1"),
        ("{ordinary: 2}", "{ordinary: 3}", "composition", "2 prompts by language and 3 by kind", "equal sums"),
        ("{en: 2}", "{'e n': 2}", "composition.languages.'e n'", "'e n'", "language tags such as en"),
        ("{en: 2}", "{no: 2}", "line 5", "the key 'no'", "text keys (quote it"),
    ],
)
def test_a_fault_is_one_line_with_its_key(write: Write, old: str, new: str, key: str, found: str, allowed: str) -> None:  # noqa: PLR0917
    assert old in TEXT
    path = write(TEXT.replace(old, new))
    error = refusal(path)
    assert (error.file, error.key, error.found) == (str(path), key, found)
    assert error.allowed.startswith(allowed)


def test_an_unknown_key_is_named_before_what_it_leaves_missing(write: Write) -> None:
    assert refusal(write(TEXT.replace("name:", "nme:"))).key == "nme"


def test_a_key_with_control_characters_is_shown_escaped(write: Write) -> None:
    assert refusal(write(TEXT + '"a\\nb": 1\n')).key == r"'a\nb'"


def test_a_missing_job_file_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.yaml").found == "no such file or directory"


def test_an_override_replaces_a_key(write: Write) -> None:
    file = load_job(write(TEXT), ["fork.layer=3", "horizons=[4, 6]", "execution.actors=2"])
    assert file.job.model_dump(include={"fork": {"layer"}, "horizons": True, "execution": {"actors", "threads"}}) == {
        "fork": {"layer": 3},
        "horizons": (4, 6),
        "execution": {"actors": 2, "threads": 1},
    }


def test_a_fault_of_an_override_names_the_option(write: Write) -> None:
    error = refusal(write(TEXT), "fork.layer=3", "horizons.1=4")
    assert (error.file, error.key, error.found) == ("--set horizons.1=4", "horizons.1", "4")


def test_an_unknown_key_in_an_override_is_refused(write: Write) -> None:
    error = refusal(write(TEXT), "fork.lyer=3")
    assert (error.file, error.key, error.found) == ("--set fork.lyer=3", "fork.lyer", "an unknown key")


def test_an_override_cannot_lead_the_run_elsewhere(write: Write) -> None:
    assert refusal(write(TEXT), "name=../../x").key == "name"


def test_a_fault_of_the_file_names_the_file_beside_an_override(write: Write) -> None:
    path = write(TEXT.replace("{layer: 5}", "{layer: x}"))
    assert refusal(path, "execution.threads=2").file == str(path)


@pytest.mark.parametrize("catalog", ["../prompts.tsv", "a/../../prompts.tsv", "link/prompts.tsv"])
def test_a_relative_catalog_outside_the_folder_is_refused(write: Write, tmp_path: Path, catalog: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path.parent)
    file = load_job(write(TEXT.replace("prompts.tsv", catalog)))
    with pytest.raises(InvalidInput) as caught:
        _ = file.catalog
    assert (caught.value.key, caught.value.found) == ("catalog", f"'{catalog}'")


def test_a_catalog_may_lie_deeper_or_be_absolute(write: Write, tmp_path: Path) -> None:
    assert (
        load_job(write(TEXT.replace("prompts.tsv", "deeper/../prompts/p.tsv"))).catalog.resolve()
        == tmp_path / "prompts" / "p.tsv"
    )
    assert load_job(write(TEXT.replace("prompts.tsv", "/elsewhere/p.tsv"))).catalog == Path("/elsewhere/p.tsv")


def test_a_relative_checkpoint_starts_from_the_job_file(write: Write, tmp_path: Path) -> None:
    file = load_job(write(TEXT), ["checkpoint=flash"])
    assert file.checkpoint == str(tmp_path / "flash")


def test_a_layer_that_the_checkpoint_lacks_is_refused(write: Write) -> None:
    file = load_job(write(TEXT))
    file.check_layer("fork.layer", 11, 12)
    with pytest.raises(InvalidInput) as caught:
        file.check_layer("fork.layer", 12, 12)
    assert (caught.value.file, caught.value.key, caught.value.found) == (str(file.path), "fork.layer", "12")
    assert caught.value.allowed == "0..11, the layers of checkpoint builtin"


def test_a_recorded_job_is_read_back(write: Write) -> None:
    job = load_job(write(TEXT)).job
    assert parse_job(json.loads(job.model_dump_json()), file="run.json") == job


def test_the_json_schema_holds_every_key_and_no_other() -> None:
    schema = json_schema()
    breadth = schema["$defs"]["BreadthJob"]
    assert schema["oneOf"] == [{"$ref": f"#/$defs/{model.__name__}"} for model in PROTOCOLS.values()]
    assert breadth["additionalProperties"] is False
    assert breadth["required"] == ["schema_version", "name", "protocol", "catalog"]
    assert breadth["properties"]["horizons"]["items"] == {"type": "integer", "minimum": 2, "maximum": 65536}


def test_the_json_schema_is_plain_json() -> None:
    assert json.loads(json.dumps(json_schema())) == json_schema()


def test_a_job_file_is_a_value() -> None:
    job = parse_job({"schema_version": 1, "name": "x", "protocol": "breadth", "catalog": "c"}, file="f")
    assert JobFile(Path("f"), job) == JobFile(Path("f"), job)
