"""Rounding in training equals what the stored formats can hold."""

import math

import pytest

torch = pytest.importorskip("torch")

from training.formats import (  # noqa: E402
    pack_fp4,
    pack_fp8,
    power_scale,
    round_fp4,
    round_fp8,
    round_fp8_weight,
    straight_through,
    unpack_fp4,
    unpack_fp8,
)


def test_power_scale_is_the_exact_ceiling_for_every_bf16_value():
    a = torch.arange(0x3880, 0x4780, dtype=torch.int16).view(torch.bfloat16).float()  # 2^-14 to 65280
    expected = torch.tensor([2.0 ** math.ceil(math.log2(x / 448)) for x in a.tolist()])
    assert torch.equal(power_scale(a, 448.0), expected)


def test_e2m1_ties_go_to_the_even_code():
    x = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0] + [0.0] * 24)
    assert round_fp4(x)[:8].tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0]
    assert torch.equal(round_fp4(-x), -round_fp4(x))


def test_fp4_weight_packs_to_its_rounded_value():
    w = torch.randn(16, 64, generator=torch.Generator().manual_seed(1)) * 0.07
    packed, scale = pack_fp4(w)
    assert packed.dtype == torch.int8
    assert packed.shape == (16, 32)
    assert scale.shape == (16, 2)
    assert torch.equal(unpack_fp4(packed, scale), round_fp4(w))


def test_the_even_column_is_the_low_nibble():
    w = torch.zeros(1, 32)
    w[0, 0], w[0, 1] = 6.0, -0.5
    assert pack_fp4(w)[0].view(torch.uint8)[0, 0].item() == 0x97


def test_fp8_weight_packs_to_its_rounded_value():
    w = torch.randn(256, 128, generator=torch.Generator().manual_seed(2))
    code, scale = pack_fp8(w)
    assert code.dtype == torch.float8_e4m3fn
    assert scale.dtype == torch.float8_e8m0fnu
    assert scale.shape == (2, 1)
    assert torch.equal(unpack_fp8(code, scale), round_fp8_weight(w))


def test_rounding_twice_changes_nothing():
    x = torch.randn(8, 256, generator=torch.Generator().manual_seed(3)).bfloat16()
    assert torch.equal(round_fp8(round_fp8(x, 128), 128), round_fp8(x, 128))


def test_straight_through_is_exact_forward_and_identity_backward():
    x = torch.randn(4, 128, generator=torch.Generator().manual_seed(4)).bfloat16().requires_grad_()
    y = straight_through(x, round_fp8(x, 128))
    y.float().sum().backward()
    assert torch.equal(y, round_fp8(x, 128))
    assert torch.equal(x.grad, torch.ones_like(x))
