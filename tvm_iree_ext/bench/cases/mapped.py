"""The cases of map_load and map_store: a transpose, a pad, and a store of every second column."""

from collections.abc import Callable

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Peer, Values
from tvm_iree_ext.bench.base.checks import equal, normal_operands
from tvm_iree_ext.ops.families.mapped.mapped import Mapped

_SIDE = 4096


def mapped_cases() -> tuple[Case, ...]:
    """All of them."""
    side, padded = (_SIDE, _SIDE), (_SIDE + 6, _SIDE + 10)
    return (
        _case(
            "map_load_transpose_4096",
            ops.map_load(side, side, "arg1, arg0, 0.0"),
            lambda values, out: np.copyto(out, values["source"].T),
        ),
        _case(
            "map_load_pad_4096",
            ops.map_load(side, padded, "arg0 - 3, arg1 - 5, 0.0"),
            lambda values, out: _pad(values["source"], out),
        ),
        _case(
            "map_store_transpose_4096",
            ops.map_store(side, side, "arg1, arg0, 1 > 0"),
            lambda values, out: np.copyto(out, values["input"].T),
        ),
    )


def _pad(source: np.ndarray, out: np.ndarray) -> None:
    out[...] = 0.0
    out[3:-3, 5:-5] = source


def _case(name: str, op: Mapped, fill: Callable[[Values, np.ndarray], None]) -> Case:
    """``fill`` does it in NumPy, and, as views are the same there, in PyTorch."""

    shapes = {one.name: [int(extent) for extent in one.shape] for one in op.signature.arguments}
    shape = [int(extent) for extent in op.signature.results[0].shape]

    def by_numpy(values: Values) -> Call:
        out = np.empty(shape, np.float32)

        def call() -> np.ndarray:
            fill(values, out)
            return out

        return call

    return Case(
        name=name,
        op=op,
        operands=normal_operands(shapes),
        check=lambda values: equal(by_numpy(values)()),
        peers=(Peer(NUMPY, by_numpy), Peer(TORCH, lambda values: _torch(name, values, shape))),
    )


def _torch(name: str, values: Values, shape: list[int]) -> Call:
    """The same into memory that stays."""
    import torch

    source, out = torch.from_numpy(next(iter(values.values()))), torch.empty(shape)

    def call() -> "torch.Tensor":
        if "pad" in name:
            out.zero_()[3:-3, 5:-5] = source
            return out
        return out.copy_(source.T)

    return call
