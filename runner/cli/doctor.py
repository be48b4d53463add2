"""`runner doctor`: what is installed, what this machine can do, what a checkpoint is."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

import click

import kernels
from actors.tokenizer import CheckpointTokenizer
from actors.worker import REPORTED_PACKAGES
from runner.cli.options import json_option, print_json
from runner.preflight import instruction_set, open_checkpoint
from schemas.errors import InvalidInput

GEOMETRY = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "head_dim",
    "n_routed_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "num_hash_layers",
    "sliding_window",
    "compress_ratios",
    "hc_mult",
    "max_position_embeddings",
)


@click.command()
@click.option("--checkpoint", default="builtin", show_default=True, metavar="DIR", help="Checkpoint directory to look at.")
@click.option("--content", is_flag=True, help="Read the weights too and show their digest: about five minutes for 100 GB.")
@json_option
def doctor(*, checkpoint: str, content: bool, as_json: bool) -> None:
    """Say what is installed, which kernels this machine runs, and what a checkpoint is: geometry, shards, tensors, identity.

    No weight is read unless --content asks for it, so 160 GB take seconds. Two hosts with one identity have the same headers and
    lengths, two with one content the same bytes. Ends with 2 and the first fault of a checkpoint that cannot be used.
    """
    found = {"versions": _versions(), "machine": _machine(), "checkpoint": _checkpoint(checkpoint, with_content=content)}
    if as_json:
        print_json(found)
        return
    for section, said in found.items():
        click.echo(section)
        for name, value in said.items():
            click.echo(f"  {name:24} {_text(value)}")


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in REPORTED_PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def _machine() -> dict[str, Any]:
    return {
        "host": platform.node(),
        "cpu features": dict(sorted(kernels.cpu_features().items())),
        "instruction set": instruction_set(),
        "kernel build": kernels.BUILD_ID,
    }


def _checkpoint(named: str, *, with_content: bool) -> dict[str, Any]:
    checkpoint = open_checkpoint(named)
    content: dict[str, Any] = {
        "directory": checkpoint.directory,
        "identity": checkpoint.identity,
        **({"content": checkpoint.content_digest()} if with_content else {}),
        "shards": len(checkpoint.shards),
        "shard bytes": sum(length for _, length in checkpoint.shards),
        "tensors": checkpoint.tensor_count,
        "skipped tensors": checkpoint.skipped_tensor_count,
        "tensor bytes": checkpoint.total_bytes,
        "dtypes": dict(sorted(checkpoint.dtype_counts.items())),
    }
    content |= {name: getattr(checkpoint.config, name) for name in GEOMETRY}
    try:
        tokenizer = CheckpointTokenizer(checkpoint.directory, checkpoint_vocab_size=checkpoint.config.vocab_size)
    except InvalidInput as error:
        if error.found != "no such file":
            raise
        return content | {"tokenizer": "none: the checkpoint can be looked at, but no job can run on it"}
    return content | {"tokenizer": tokenizer.identity, "tokenizer vocabulary": tokenizer.vocab_size}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {'yes' if item is True else 'no' if item is False else item}" for name, item in value.items())
    if isinstance(value, tuple | list):
        return " ".join(str(item) for item in value)
    return str(value)
