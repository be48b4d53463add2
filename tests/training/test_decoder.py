"""The training forward is the decoder's mathematics, and nothing in it looks ahead."""

import pytest

torch = pytest.importorskip("torch")

from step_decoder import StepDecoder  # noqa: E402

from training.model import Mode  # noqa: E402
from training.sinkhorn import sinkhorn_loop  # noqa: E402

EXACT = Mode(sparse=True, dtype=torch.float32)


def test_forward_equals_a_token_by_token_decoder(tiny, decoder):
    ids = torch.randint(tiny.vocab, (1, 48), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = decoder.logits(decoder(ids, EXACT).hidden)[0]
    steps = StepDecoder(tiny, decoder.state_dict())
    expected = torch.stack([torch.from_numpy(steps.step(token)[0]) for token in ids[0].tolist()])
    assert (logits - expected).abs().max() < 2e-4 * expected.std()


def test_a_later_token_changes_nothing_before_it(tiny, decoder):
    ids = torch.randint(tiny.vocab, (1, 32), generator=torch.Generator().manual_seed(2))
    other = ids.clone()
    other[0, 20] = (other[0, 20] + 1) % tiny.vocab
    with torch.no_grad():
        a, b = (decoder(x, Mode(quantised=True, sparse=True, dtype=torch.float32)).hidden[0] for x in (ids, other))
    assert torch.equal(a[:20], b[:20])
    assert not torch.equal(a[20], b[20])


def test_every_parameter_learns_under_quantisation(tiny, decoder):
    ids = torch.randint(tiny.vocab, (2, 33), generator=torch.Generator().manual_seed(4))
    out = decoder(ids[:, :32], Mode(quantised=True, sparse=True, dtype=torch.float32))
    loss = -decoder.token_log_probs(out.hidden, ids[:, 1:]).mean() + out.index_loss + out.balance
    gradients = torch.autograd.grad(loss, list(decoder.parameters()))
    still = [
        name for (name, _), gradient in zip(decoder.named_parameters(), gradients, strict=False) if not gradient.abs().max() > 0
    ]
    assert still == []


def test_sinkhorn_makes_rows_and_columns_sum_to_one():
    c = sinkhorn_loop(torch.randn(50, 4, 4, generator=torch.Generator().manual_seed(5)), 20, 1e-6)
    assert torch.allclose(c.sum(-1), torch.ones(50, 4), atol=1e-4)
    assert torch.allclose(c.sum(-2), torch.ones(50, 4), atol=1e-4)
