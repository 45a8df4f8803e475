"""The cases of programs of the vector form: the article's two, at the end of its stages.

``dot_minus_128x256x64`` is ``a @ b - sub``; ``conv_minus_224`` a convolution of 1 x 224 x 224 x 3
by 3 x 3 x 3 x 32 with stride 2, a row and a column of padding, minus a tensor.  Tiles are those of
this machine.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext import vector
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.base.checks import normal_operands, within
from tvm_iree_ext.bench.peers.iree_peer import iree_peer
from tvm_iree_ext.bench.peers.mlir_text import filled, tensor
from tvm_iree_ext.catalog.base.entry import Tolerance
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.targets.vector_units import vector_unit


def vector_cases() -> tuple[Case, ...]:
    """All of them."""
    return (
        _case(
            "dot_minus_128x256x64",
            vector.article_programs.dot(),
            _dot_mlir(),
            _numpy_dot,
            _torch_dot,
        ),
        _case(
            "conv_minus_224", vector.article_programs.conv(), _conv_mlir(), _numpy_conv, _torch_conv
        ),
    )


def _case(
    name: str,
    program: vector.VectorProgram,
    mlir: str,
    numpy_call: Callable[[Values], Call],
    torch_call: Callable[[Values], Call],
) -> Case:
    *_, last = vector.stages(program, vector_unit(make_target("llvm")))

    shapes = {one.name: tuple(map(int, one.shape)) for one in program.signature.arguments}

    def check(values: Values) -> Check:
        want = numpy_call({name: value.astype(np.float64) for name, value in values.items()})()
        return within({"d": want}, {"d": Tolerance(1e-4, 1e-5)})

    return Case(
        name=name,
        op=last.program,
        operands=normal_operands(shapes),
        check=check,
        peers=(Peer(NUMPY, numpy_call), Peer(TORCH, torch_call), iree_peer(last.program, mlir)),
    )


def _numpy_dot(values: Values) -> Call:
    a, b, sub = (values[name] for name in ("a", "b", "sub"))
    out = np.empty(sub.shape, sub.dtype)
    return lambda: np.subtract(np.matmul(a, b, out=out), sub, out=out)


def _torch_dot(values: Values) -> Call:
    import torch

    a, b, sub = (torch.from_numpy(values[name]) for name in ("a", "b", "sub"))
    out = torch.empty_like(sub)
    return lambda: torch.sub(torch.matmul(a, b, out=out), sub, out=out).numpy()


def _dot_mlir() -> str:
    a, b, d = tensor((128, 256)), tensor((256, 64)), tensor((128, 64))
    return f"""
  {filled("start", 0.0, (128, 64))}
  %c = linalg.matmul ins(%a, %b : {a}, {b}) outs(%start : {d}) -> {d}
  %d = arith.subf %c, %sub : {d}
  return %d : {d}"""


def _numpy_conv(values: Values) -> Call:
    image, taps, sub = (values[name] for name in ("image", "filter", "sub"))
    slide: Any = np.lib.stride_tricks.sliding_window_view

    def call() -> np.ndarray:
        padded = np.pad(image, ((0, 0), (0, 1), (0, 1), (0, 0)))
        windows = slide(padded, (3, 3), (1, 2))[:, ::2, ::2]
        return np.tensordot(windows, taps, ((4, 5, 3), (0, 1, 2))) - sub

    return call


def _torch_conv(values: Values) -> Call:
    import torch

    image, taps, sub = (torch.from_numpy(values[name]) for name in ("image", "filter", "sub"))
    images, given = image.permute(0, 3, 1, 2), sub.permute(0, 3, 1, 2)
    weights = taps.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)

    def call() -> Any:
        padded = torch.nn.functional.pad(images, (0, 1, 0, 1))
        found = torch.nn.functional.conv2d(padded, weights, None, 2)
        return found.sub_(given).permute(0, 2, 3, 1)

    return call


def _conv_mlir() -> str:
    image, padded = tensor((1, 224, 224, 3)), tensor((1, 225, 225, 3))
    taps, d = tensor((3, 3, 3, 32)), tensor((1, 112, 112, 32))
    return f"""
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %image low[0, 0, 0, 0] high[0, 1, 1, 0] {{
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  }} : {image} to {padded}
  {filled("start", 0.0, (1, 112, 112, 32))}
  %sum = linalg.conv_2d_nhwc_hwcf
    {{strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
    ins(%padded, %filter : {padded}, {taps}) outs(%start : {d}) -> {d}
  %d = arith.subf %sum, %sub : {d}
  return %d : {d}"""
