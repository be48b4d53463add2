"""The exported directory holds what was trained, under the official names."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from training.export import read_checkpoint, tensors, write_checkpoint  # noqa: E402
from training.geometry import Geometry, read_geometry  # noqa: E402
from training.model import INFERENCE  # noqa: E402


def test_round_trip_gives_the_same_logits(tmp_path, tiny, decoder):
    write_checkpoint(tiny, decoder.state_dict(), tmp_path)
    back = read_checkpoint(tmp_path)
    ids = torch.randint(tiny.vocab, (1, 32), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(back(ids, INFERENCE).hidden, decoder(ids, INFERENCE).hidden)


def test_config_states_the_geometry(tmp_path, tiny, decoder):
    write_checkpoint(tiny, decoder.state_dict(), tmp_path)
    assert read_geometry(tmp_path) == tiny


def test_index_names_every_tensor_once(tmp_path, tiny, decoder):
    total = write_checkpoint(tiny, decoder.state_dict(), tmp_path)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    stored = tensors(tiny, decoder.state_dict())
    assert set(index["weight_map"]) == set(stored)
    assert index["metadata"]["total_size"] == total == sum(t.nbytes for t in stored.values())


def test_default_geometry_is_flashs_pattern():
    g = Geometry()
    assert g.ratios == (0, 0, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128)
    assert (g.window, g.topk, g.hash_layers, g.streams, g.sinkhorn_iters, g.swiglu_limit) == (128, 6, 3, 4, 20, 10.0)
