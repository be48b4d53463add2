"""The checkpoint's own tokenizer: raw UTF-8 text to token IDs and back (study 2.1).

Nothing is added to a prompt: no template, no begin-of-sentence, no truncation, no padding, whatever tokenizer.json asks for. Text
that spells a special token of the vocabulary is that token, as in any runtime that reads the same file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import tokenizers

from schemas.errors import InvalidInput


class CheckpointTokenizer:
    """tokenizer.json of a checkpoint directory. Implements `actors.executor.Tokenizer`.

    identity: SHA-256 (hex) of the file. vocab_size: entries, added tokens included.
    """

    def __init__(self, directory: str | Path, *, checkpoint_vocab_size: int) -> None:
        """Raises InvalidInput when the file is missing, is no tokenizer, or has tokens without an embedding."""
        path = Path(directory) / "tokenizer.json"
        try:
            data = path.read_bytes()
        except OSError as error:
            found = "no such file" if isinstance(error, FileNotFoundError) else f"unreadable file ({error.strerror})"
            raise InvalidInput(str(path), "", found, "the tokenizer of the checkpoint") from None
        try:
            self._tokenizer = tokenizers.Tokenizer.from_buffer(data)
        except Exception as error:  # the package raises bare Exception for whatever its parser says
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InvalidInput(str(path), "", f"not a tokenizer ({reason})", "a file that `tokenizers` can read") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.identity = hashlib.sha256(data).hexdigest()
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        self.vocab_size = len(vocabulary)
        highest = max(vocabulary.values(), default=-1)
        if not 0 < self.vocab_size <= checkpoint_vocab_size or highest >= checkpoint_vocab_size:
            raise InvalidInput(
                str(path),
                "vocabulary",
                f"{self.vocab_size} tokens with IDs up to {highest}",
                f"IDs below {checkpoint_vocab_size}, the vocab_size of {path.parent / 'config.json'}",
            )

    def encode(self, text: str) -> list[int]:
        """Token IDs of `text`, nothing added; [] for "" only."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids`, special tokens spelled out; bytes that are no whole character give U+FFFD, so compare IDs."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))
