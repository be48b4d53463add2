"""The recipe's tests need torch, safetensors and tokenizers, which are extras of the project; without them they skip."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from training.geometry import Geometry  # noqa: E402
from training.model import Decoder  # noqa: E402


@pytest.fixture(scope="session")
def tiny() -> Geometry:
    """Every layer kind at the smallest widths the formats allow: window 8, HCA rate 8, a top-k that cuts."""
    return Geometry(vocab=64, hidden=128, ratios=(0, 4, 8, 4), heads=2, head_dim=128, q_lora=128, o_groups=2, o_lora=64,
                    window=8, experts=8, topk=3, hash_layers=2, index_heads=8, index_topk=3, swiglu_limit=0.5, yarn_original=64)


@pytest.fixture(scope="session")
def decoder(tiny: Geometry) -> Decoder:
    """Random weights with live sinks, biases and mixers, rounded to what the checkpoint stores as BF16."""
    torch.manual_seed(3)
    model = Decoder(tiny)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "sink" in name:
                parameter.normal_()
            elif name.endswith("norm"):
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif ".hc_" in name and name.endswith("scale"):
                parameter.fill_(1.0)
            parameter.copy_(parameter.to(torch.bfloat16))
        for block in model.layers:
            if not block.ffn.hashed:
                block.ffn.bias.normal_(std=0.3)
    return model.eval()
