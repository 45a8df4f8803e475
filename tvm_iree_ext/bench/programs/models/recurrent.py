"""Recurrent layers of PyTorch."""

import torch
from torch import Tensor, nn

from tvm_iree_ext.bench.programs.models.program_model import Model


class _Sequence(nn.Module):
    """A recurrent layer's results without its last state."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


def lstm() -> Model:
    """64 steps of 256, batch 1."""
    torch.manual_seed(0)
    layer = nn.LSTM(256, 256, batch_first=True)
    return Model(_Sequence(layer).eval(), (torch.randn(1, 64, 256),))


def gru() -> Model:
    """64 steps of 256, batch 4."""
    torch.manual_seed(0)
    layer = nn.GRU(128, 256, batch_first=True)
    return Model(_Sequence(layer).eval(), (torch.randn(4, 64, 128),))
