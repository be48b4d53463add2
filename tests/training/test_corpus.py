"""Readers of the corpus step, and what its held-out list lets through."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.corpus import heldout, readers


def test_gettext_source_is_read_in_order_without_header_and_untouched_strings(tmp_path: Path) -> None:
    path = tmp_path / "zh.po"
    path.write_text(
        'msgid ""\nmsgstr "Language: zh\\n"\n\n#: a.c:1\nmsgid "Say \\"yes\\"."\nmsgstr "说\\"是\\"。"\n\n'
        'msgid ""\n"Two "\n"lines."\nmsgstr ""\n"两"\n"行。"\n',
        encoding="utf-8",
    )
    assert list(readers.po(path)) == [('Say "yes".', '说"是"。'), ("Two lines.", "两行。")]


def test_properties_join_continued_lines_and_skip_comments(tmp_path: Path) -> None:
    path = tmp_path / "messages.properties"
    path.write_text("# a=b\nmodel.a=一座\\\n    城市\nmodel.b = x=y\n", encoding="utf-8")
    assert readers.properties(path) == {"model.a": "一座城市", "model.b": "x=y"}


def test_renpy_pairs_follow_the_comment_that_holds_the_english(tmp_path: Path) -> None:
    path = tmp_path / "script.rpy"
    path.write_text(
        'translate schinese start_1:\n\n    # e "Hi \\"you\\"."\n    e "你好。"\n\n    # "Narration."\n    "旁白。"\n\n'
        'translate schinese strings:\n\n    old "Me"\n    new "我"\n',
        encoding="utf-8",
    )
    assert list(readers.renpy(path)) == [('Hi "you".', "你好。"), ("Narration.", "旁白。")]


@pytest.mark.parametrize(("source", "whole"), [("wesnoth", "heldout"), ("wesnoth-taiwan", "drop")])
def test_later_sources_lose_what_the_list_holds_and_add_nothing_to_it(
    source: str, whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heldout, "LIST", tmp_path / "list.gz")
    held = "他们在杳无人迹的无名小径上行进了数星期。有时，精灵村庄和厅堂的影像出现在森林深处，但当他们接近时，一切都消失了。"
    fresh = "殿下！岛上好像有什么动静！看来像是亡灵的哨站！我们如果击败他们，这附近的居民也许会十分感激，毕竟时间紧迫。" * 3
    heldout.write_list([("zh", held)])
    sort = heldout.HeldOut()
    assert sort.paragraph(held, "zh", source) == whole
    assert sort.paragraph(held + fresh, "zh", source) == "drop"
    assert sort.paragraph(fresh, "zh", source) == "train"
