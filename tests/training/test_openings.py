"""Openings of held-out sentences, and the later translations that must not tell held-out text in other words."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from training.corpus import bilingual, heldout
from training.openings import opening, openings
from training.tokenizer import END, NEWLINE

ENGLISH = "The old clock in the hallway had started to strike again. Nobody in the village remembered who had bought it then."
MANUAL = "Every manual says at length what it is that one should do when anything fails."
CHINESE = "他们在杳无人迹的无名小径上行进了数星期。有时精灵村庄和厅堂的影像会出现在森林的深处。"


def document(language: str, text: str, tier: str = "main") -> dict[str, str]:
    return {"language": language, "text": text, "tier": tier}


def test_openings_start_sentences_of_narrative_documents_in_both_languages():
    documents = [
        document("en", ENGLISH),
        document("zh", CHINESE),
        document("en", MANUAL, "extra"),
    ]
    found = list(openings(documents, 2))
    assert [language for language, _ in found] == ["en", "en", "zh", "zh"]
    assert {text.split()[0] for _, text in found[:2]} == {"The", "Nobody"}
    assert {text[:2] for _, text in found[2:]} == {"他们", "有时"}
    assert list(openings(documents, 2)) == found
    with pytest.raises(ValueError, match="larger than population"):
        list(openings(documents, 3))


@pytest.mark.parametrize(("sentence", "language"), [("went on and on and on.", "en"), ("Too short.", "en"), ("他来了。", "zh")])
def test_a_sentence_that_starts_in_the_middle_or_ends_soon_is_no_prompt(sentence: str, language: str):
    assert opening(sentence, language, random.Random(0)) is None


def test_other_translation_of_a_heldout_message_is_left_out(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(heldout, "LIST", tmp_path / "list.gz")
    heldout.write_list([("zh", CHINESE)])
    mainland = {"a": f"<b>{CHINESE}</b>", "b": "岛上好像有什么动静"}
    taiwan = {"a": "他们沿着没有名字的小路走了好几周", "b": "岛上似乎有些动静", "c": "只有这里翻译了"}
    assert bilingual._unlisted(taiwan, mainland, bilingual._untagged) == {"b": taiwan["b"], "c": taiwan["c"]}


def test_the_newline_is_a_token_of_its_own_in_the_embedded_tokenizer():
    tokenizer = Tokenizer.from_file(str(Path(__file__).parents[2] / "kernels/checkpoints/mote/tokenizer.json"))
    assert tokenizer.encode("He said.\n她说。\n").ids.count(NEWLINE) == 2
    assert tokenizer.token_to_id("<｜end▁of▁sentence｜>") == END
