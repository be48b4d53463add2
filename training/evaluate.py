"""Measures a checkpoint: held-out bits a byte, loops under greedy decoding, router load and margins, index-score ties.

    python -m training.evaluate CHECKPOINT HELDOUT.jsonl PROMPTS.tsv [--out report.json]

The checkpoint is read in the official layout, so one built by another recipe can be measured beside it. Weights and
activations are quantised as the checkpoint's numerics ask; products run in FP32.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.export import read_checkpoint
from training.generate import greedy, loops
from training.model import INFERENCE, Decoder, Mode
from training.tokenizer import END

CONTEXT = 512
PAD = 0  # begin-of-sentence, which no document holds


def _windows(tokenizer: Tokenizer, documents: Iterable[dict[str, Any]]) -> list[tuple[str, list[int], int]]:
    """(group, ids, bytes): an end mark, then at most CONTEXT-1 tokens of one document; every token after the first id is
    predicted. A later piece of a document starts from its predecessor's last token. Bytes are shared out by tokens."""
    rows = []
    for document in documents:
        ids, size = [END, *tokenizer.encode(document["text"]).ids], len(document["text"].encode())
        group = f"{document['language']}/{'fixed list' if document['split'] == 'heldout' else 'drawn'}"
        for start in range(0, len(ids) - 1, CONTEXT - 1):
            piece = ids[start : start + CONTEXT]
            rows.append((group, piece, size * (len(piece) - 1) / (len(ids) - 1)))
    return rows


@torch.no_grad()
def bits_per_byte(
    model: Decoder, tokenizer: Tokenizer, documents: Iterable[dict[str, Any]], mode: Mode = INFERENCE, batch: int = 16
) -> dict[str, Any]:
    """{group: {bits_per_byte, nats_per_token, bytes, tokens}} and the two languages together under 'both'."""
    rows = sorted(_windows(tokenizer, documents), key=lambda row: len(row[1]))
    nats, sizes, tokens = defaultdict(float), defaultdict(float), defaultdict(int)
    unit, device = max(model.g.window, *model.g.ratios), model.embed.device
    for first in range(0, len(rows), batch):
        part = rows[first : first + batch]
        length = -(-max(len(ids) for _, ids, _ in part) // unit) * unit
        ids = torch.zeros(len(part), length, dtype=torch.long, device=device)
        for i, (_, piece, _) in enumerate(part):
            ids[i, : len(piece)] = torch.tensor(piece)
        log_prob = model.token_log_probs(model(ids, mode).hidden[:, :-1], ids[:, 1:]).double().cpu()
        for i, (group, piece, size) in enumerate(part):
            for key in (group, "both/" + group.split("/")[1]):
                nats[key] -= log_prob[i, : len(piece) - 1].sum().item()
                sizes[key] += size
                tokens[key] += len(piece) - 1
    return {
        key: {
            "bits_per_byte": round(nats[key] / math.log(2) / sizes[key], 4),
            "nats_per_token": round(nats[key] / tokens[key], 4),
            "bytes": round(sizes[key]),
            "tokens": tokens[key],
        }
        for key in sorted(nats)
    }


class Recorder:
    """Watches routers and indexers during forward passes.

    Router margin: gap between the last chosen and the first rejected biased score. Index margin: the same at the
    top-k cut, where there is one, once with FP32 scores and once with scores rounded to BF16, as the official path ranks
    them. Padding does not count.
    """

    def __init__(self, model: Decoder) -> None:
        self.load = [torch.zeros(model.g.experts) for _ in model.layers]
        self.router, self.index, self.index_bf16 = [], [], []
        for layer, block in enumerate(model.layers):
            block.ffn.route = self._watch_router(layer, block.ffn, block.ffn.route)
            if block.attn.ratio == 4:
                block.attn.indexer.select = self._watch_indexer(block.attn.indexer, block.attn.indexer.select)

    def _watch_router(self, layer, ffn, route):
        def watched(x: Tensor, ids: Tensor):
            score, chosen, weight = route(x, ids)
            self._live = ids != PAD  # the first router runs before the first indexer
            self.load[layer] += torch.bincount(chosen[self._live].flatten().cpu(), minlength=ffn.g.experts)
            if not ffn.hashed:
                best = (score + ffn.bias)[self._live].topk(ffn.g.topk + 1, -1).values
                self.router.append((best[:, -2] - best[:, -1]).cpu())
            return score, chosen, weight

        return watched

    def _watch_indexer(self, indexer, select):
        def watched(score: Tensor, visible: Tensor):
            k = indexer.g.index_topk
            if score.shape[-1] > k:
                for values, into in ((score, self.index), (score.bfloat16().float(), self.index_bf16)):
                    best = values.masked_fill(~visible, -math.inf).topk(k + 1, -1).values
                    gap = (best[..., -2] - best[..., -1]).flatten()[self._live]
                    into.append(gap[torch.isfinite(gap)].cpu())
            return select(score, visible)

        return watched

    def report(self) -> dict[str, Any]:
        share = [load / load.sum() for load in self.load]
        entropy = [-(s[s > 0] * s[s > 0].log()).sum().item() / math.log(len(s)) for s in share]

        def margins(parts: list[Tensor]) -> dict[str, Any]:
            if not parts:
                return {"cuts": 0}
            gaps = torch.cat(parts).double().sort().values
            return {
                "cuts": len(gaps),
                "minimum": gaps[0].item(),
                "percentile_1": gaps[len(gaps) // 100].item(),
                "ties": int((gaps == 0).sum()),
            }

        return {
            "entropy_by_layer": [round(e, 4) for e in entropy],
            "dead_experts": sum(int((load == 0).sum()) for load in self.load),
            "least_share_by_layer": [round(s.min().item() * len(s), 4) for s in share],
            "router_margin": margins(self.router),
            "index_margin_fp32_scores": margins(self.index),
            "index_margin_bf16_scores": margins(self.index_bf16),
        }


def read_prompts(path: Path) -> list[dict[str, str]]:
    """Rows of a prompt catalogue: prompt_id, language, kind, text."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("heldout", type=Path)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = read_checkpoint(arguments.checkpoint, device)
    tokenizer = Tokenizer.from_file(str(arguments.checkpoint / "tokenizer.json"))
    prompts = read_prompts(arguments.prompts)
    texts = greedy(model, [tokenizer.encode(p["text"]).ids for p in prompts], 64)
    looping = [loops(tokens) for tokens in texts]
    recorder = Recorder(model)
    documents = [json.loads(line) for line in arguments.heldout.read_text(encoding="utf-8").splitlines()]
    report = {
        "heldout": bits_per_byte(model, tokenizer, documents),
        **recorder.report(),
        "loops": {"prompts": len(prompts), "looping": sum(looping), "share": sum(looping) / len(prompts)},
        "continuations": {p["prompt_id"]: p["text"] + " ⟶ " + tokenizer.decode(t) for p, t in zip(prompts, texts, strict=True)},
    }
    text = json.dumps(report, ensure_ascii=False, indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
