"""Trains the byte-level BPE tokenizer and turns the corpus into token arrays.

    python -m training.tokenizer WORK [--vocab 8192 | --use TOKENIZER.json]

Reads WORK/corpus.jsonl.xz; writes WORK/tokenizer.json, WORK/heldout.jsonl with the held-out documents, and
WORK/tokens.npz: uint16 streams main_en, main_zh, extra_en, extra_zh and heldout_en, heldout_zh; every document ends with
the end-of-sentence id.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"]
END = 1
NEWLINE = 201  # ids of single bytes follow the special tokens, in the order of the alphabet that stands for them


def documents(work: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(work / "corpus.jsonl.xz", "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def train_tokenizer(texts: Iterator[str], vocab: int) -> Tokenizer:
    """Byte-level BPE; runs of Han or kana and up to three digits are separate pre-tokens, so merges never mix scripts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}{1,3}|[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=vocab, initial_alphabet=alphabet, special_tokens=SPECIAL, show_progress=False)
    )
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--use", type=Path, help="encode with this tokenizer instead of training one")
    arguments = parser.parse_args()
    work, draw = arguments.work, random.Random(1)
    training, heldout = [], []
    for document in documents(work):
        (training if document["split"] == "train" else heldout).append(document)
    # The vocabulary follows the use: all narrative text of both languages, a tenth of the rest.
    sample = [d["text"] for d in training if d["tier"] == "main" or draw.random() < 0.1]
    tokenizer = Tokenizer.from_file(str(arguments.use)) if arguments.use else train_tokenizer(iter(sample), arguments.vocab)
    tokenizer.save(str(work / "tokenizer.json"))
    encoded = tokenizer.encode_batch_fast([d["text"] for d in training])
    order = list(range(len(training)))
    draw.shuffle(order)
    arrays: dict[str, list[np.ndarray]] = {"main_en": [], "main_zh": [], "extra_en": [], "extra_zh": []}
    for i in order:
        key = f"{training[i]['tier']}_{training[i]['language']}"
        arrays[key].append(np.array([*encoded[i].ids, END], dtype=np.uint16))
    for language in ("en", "zh"):  # for the validation curve: the narrative tier only, where both splits come from
        own = [d["text"] for d in heldout if d["language"] == language and d["tier"] == "main"]
        arrays["heldout_" + language] = [np.array([*e.ids, END], dtype=np.uint16) for e in tokenizer.encode_batch_fast(own)]
    for key, parts in arrays.items():
        size = sum(map(len, parts))
        print(f"{key}: {size / 1e6:.2f} M tokens")
    np.savez(work / "tokens.npz", **{key: np.concatenate(parts) for key, parts in arrays.items()})
    with (work / "heldout.jsonl").open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(d, ensure_ascii=False) + "\n" for d in heldout)


if __name__ == "__main__":
    main()
