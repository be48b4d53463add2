from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import kernels
from actors.tokenizer import CheckpointTokenizer
from schemas.errors import InvalidInput

MOTE = kernels.builtin_checkpoint()
VOCAB_SIZE = 8192


@pytest.fixture
def tokenizer() -> CheckpointTokenizer:
    return CheckpointTokenizer(MOTE, checkpoint_vocab_size=VOCAB_SIZE)


@pytest.fixture
def changed(tmp_path: Path) -> dict[str, object]:
    """tokenizer.json as data, to change and write to tmp_path."""
    data: dict[str, object] = json.loads((MOTE / "tokenizer.json").read_text(encoding="utf-8"))
    return data


@pytest.mark.parametrize("text", ["why the sheep", "朋友昨天打来电话", "two\nlines\t and  spaces", " é e\u0301 🐑"])
def test_text_survives(tokenizer: CheckpointTokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_nothing_is_added(tokenizer: CheckpointTokenizer) -> None:
    assert tokenizer.encode("") == []
    assert not set(tokenizer.encode("why the sheep")) & {0, 1, 2}


def test_identity_is_the_files_digest(tokenizer: CheckpointTokenizer) -> None:
    assert tokenizer.identity == hashlib.sha256((MOTE / "tokenizer.json").read_bytes()).hexdigest()


def test_truncation_padding_and_template_of_the_file_are_ignored(
    tokenizer: CheckpointTokenizer, changed: dict[str, object], tmp_path: Path
) -> None:
    changed["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    changed["padding"] = {
        "strategy": {"Fixed": 64},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 2,
        "pad_type_id": 0,
        "pad_token": "<｜▁pad▁｜>",
    }
    special = {"id": "<｜begin▁of▁sentence｜>", "ids": [0], "tokens": ["<｜begin▁of▁sentence｜>"]}
    changed["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": special["id"], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {special["id"]: special},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(changed), encoding="utf-8")
    text = "Morning light filled the room"
    assert CheckpointTokenizer(tmp_path, checkpoint_vocab_size=VOCAB_SIZE).encode(text) == tokenizer.encode(text)


def test_partial_character_is_a_replacement_character(tokenizer: CheckpointTokenizer) -> None:
    sheep = tokenizer.encode("🐑")
    assert len(sheep) > 1
    assert "\ufffd" in tokenizer.decode(sheep[:1])


def test_larger_vocabulary_than_the_checkpoints_names_both() -> None:
    with pytest.raises(InvalidInput) as error:
        CheckpointTokenizer(MOTE, checkpoint_vocab_size=VOCAB_SIZE - 1)
    assert error.value.file == str(MOTE / "tokenizer.json")
    assert "8192 tokens with IDs up to 8191" in error.value.found
    assert f"IDs below 8191, the vocab_size of {MOTE / 'config.json'}" in error.value.allowed


def test_id_beyond_the_checkpoints_vocabulary(changed: dict[str, object], tmp_path: Path) -> None:
    model = changed["model"]
    assert isinstance(model, dict)
    token = next(name for name, number in model["vocab"].items() if number == VOCAB_SIZE - 1)
    model["merges"] = [pair for pair in model["merges"] if "".join(pair) != token]
    model["vocab"][token] = VOCAB_SIZE
    (tmp_path / "tokenizer.json").write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(InvalidInput, match=f"IDs up to {VOCAB_SIZE}"):
        CheckpointTokenizer(tmp_path, checkpoint_vocab_size=VOCAB_SIZE)


def test_larger_checkpoint_vocabulary_is_fine() -> None:
    assert CheckpointTokenizer(MOTE, checkpoint_vocab_size=VOCAB_SIZE + 128).vocab_size == VOCAB_SIZE


def test_missing_tokenizer_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"tokenizer\.json: found no such file, allowed: the tokenizer of the checkpoint"):
        CheckpointTokenizer(tmp_path, checkpoint_vocab_size=VOCAB_SIZE)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"not json"])
def test_what_is_no_tokenizer_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(InvalidInput, match="found not a tokenizer") as error:
        CheckpointTokenizer(tmp_path, checkpoint_vocab_size=VOCAB_SIZE)
    assert "\n" not in str(error.value)


def test_truncated_tokenizer_is_refused(tmp_path: Path) -> None:
    shutil.copy(MOTE / "tokenizer.json", tmp_path)
    path = tmp_path / "tokenizer.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidInput, match="found not a tokenizer"):
        CheckpointTokenizer(tmp_path, checkpoint_vocab_size=VOCAB_SIZE)
