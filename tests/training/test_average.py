"""The mean of checkpoints, and a final norm that scales logits alone."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from training.average import average  # noqa: E402
from training.model import INFERENCE, Decoder  # noqa: E402


def other(tiny, decoder):
    state = decoder.state_dict()
    generator = torch.Generator().manual_seed(3)
    return {
        name: value + torch.randn(value.shape, generator=generator) if value.is_floating_point() else value
        for name, value in state.items()
    }


def test_every_weight_is_the_mean(tiny, decoder):
    a, b = decoder.state_dict(), other(tiny, decoder)
    for name, value in average([a, b], 1.0).items():
        assert torch.allclose(value.double(), (a[name].double() + b[name].double()) / 2, atol=1e-6), name


def test_sharpness_scales_every_logit(tiny, decoder):
    soft = Decoder(tiny)
    soft.load_state_dict(average([decoder.state_dict()], 0.5))
    ids = torch.randint(tiny.vocab, (1, 32), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        before, after = (model.logits(model(ids, INFERENCE).hidden) for model in (decoder, soft.eval()))
    assert torch.equal(after, 0.5 * before)


def test_checkpoints_of_other_hash_tables_are_refused(tiny, decoder):
    a, b = decoder.state_dict(), other(tiny, decoder)
    name = next(name for name, value in b.items() if not value.is_floating_point())
    with pytest.raises(ValueError, match="differs"):
        average([a, b | {name: b[name] + 1}], 1.0)
