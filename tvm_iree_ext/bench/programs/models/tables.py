"""PyTorch's programs of tables and order: bags of embeddings, sorting, and int8 weights."""

import torch
from torch import Tensor, nn

from tvm_iree_ext.bench.programs.models.program_model import Model


def embedding_bag() -> Model:
    """The means of 256 bags of 20 rows."""
    torch.manual_seed(0)
    bags = nn.EmbeddingBag(20000, 64, mode="mean").eval()
    return Model(bags, (torch.randint(0, 20000, (256, 20)),))


class _Sorted(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, places = torch.sort(x, dim=-1, descending=True)
        return values, places


def torch_sort() -> Model:
    """64 rows of 4096, and places; no two are equal, since the sort need not be stable."""
    torch.manual_seed(0)
    return Model(_Sorted(), (torch.stack([torch.randperm(4096) for _ in range(64)]).float(),))


class _Int8Linear(nn.Module):
    """Weights of int8 by output, activations quantised as they come."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        weight = torch.randn(outputs, inputs) * 0.02
        scale = weight.abs().amax(1) / 127
        quantised = (weight / scale[:, None]).round().to(torch.int8)
        self.register_buffer("weight", quantised.T.contiguous())
        self.register_buffer("scale", scale)

    def forward(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(-1, keepdim=True) / 127
        quantised = (x / scale).round().clamp(-127, 127).to(torch.int8)
        return torch._int_mm(quantised, self.weight).float() * scale * self.scale


def int8_linear() -> Model:
    """128 rows of 768 to 3072."""
    torch.manual_seed(0)
    return Model(
        _Int8Linear(768, 3072).eval(),
        (torch.randn(128, 768),),
        onnx={"custom_translation_table": {torch.ops.aten._int_mm.default: _integer_product}},
    )


def _integer_product(a: Tensor, b: Tensor) -> Tensor:
    """ONNX's node for ``_int_mm``, which the exporter does not know."""
    from onnxscript import opset18

    return opset18.MatMulInteger(a, b)
