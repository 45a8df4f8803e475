"""The cases of conv_2d: ``conv3x3_64_56`` is 64 channels of 56 x 56 to 64 filters, NHWC.

``_bias_relu`` has the larger of 0 and the sum with a bias of its filter, ``_sub`` a tensor less.
By im2col unless the name says it.  PyTorch has the filter in the layout that
suits it, and images of the case's: channels_last for NHWC.
"""

from typing import Any, Literal

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.base.checks import normal_operands, within_tolerance
from tvm_iree_ext.bench.peers.iree_peer import DATA_TILING, iree_peer
from tvm_iree_ext.bench.peers.jax_peer import jax_peer
from tvm_iree_ext.bench.peers.mlir_text import filled, tensor
from tvm_iree_ext.bench.peers.onnx_runtime import ort_peer
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d

Fused = Literal["", "bias_relu", "sub"]

_CHANNELS_FIRST, _FILTERS_FIRST = (0, 3, 1, 2), (3, 2, 0, 1)
_EPILOGUES = {"bias_relu": "max(arg0 + arg1, 0)", "sub": "arg0 - arg1"}


def conv_2d_cases() -> tuple[Case, ...]:
    """All of them."""
    image, taps = (1, 56, 56, 64), (3, 3, 64, 64)
    same: dict[str, Any] = {"padding": 1}
    winograd = {**same, "algorithm": "winograd"}
    stem: dict[str, Any] = {"strides": 2, "padding": 3}
    return (
        conv_2d_case("conv3x3_64_56", image, taps, **same),
        conv_2d_case("conv3x3_64_56_nchw", image, taps, nchw=True, **same),
        conv_2d_case("conv3x3_64_56_winograd", image, taps, **winograd),
        conv_2d_case("conv3x3_64_56_winograd_nchw", image, taps, nchw=True, **winograd),
        conv_2d_case("conv3x3_64_56_bias_relu", image, taps, fused="bias_relu", **same),
        conv_2d_case(
            "conv3x3_64_56_bias_relu_nchw", image, taps, nchw=True, fused="bias_relu", **same
        ),
        conv_2d_case("conv_stem_s2", (1, 224, 224, 3), (7, 7, 3, 64), **stem),
        conv_2d_case("conv_stem_s2_nchw", (1, 224, 224, 3), (7, 7, 3, 64), nchw=True, **stem),
        conv_2d_case("conv3x3_256_14", (1, 14, 14, 256), (3, 3, 256, 256), **same),
        conv_2d_case("conv3x3_61_53", (1, 53, 55, 61), (3, 3, 61, 67), **same),
        conv_2d_case("conv1x1_256_28", (1, 28, 28, 256), (1, 1, 256, 128)),
        conv_2d_case("depthwise3x3_128_56", (1, 56, 56, 128), (3, 3, 1, 128), groups=128, **same),
    )


def conv_2d_case(
    name: str,
    image: tuple[int, int, int, int],
    taps: tuple[int, int, int, int],
    *,
    nchw: bool = False,
    fused: Fused = "",
    **attributes: Any,
) -> Case:
    """A float32 case for an image and a filter, both with channels last, whatever the layout.

    Args:
        name: of the case.
        image, taps: shapes.
        nchw: whether channels come first.
        fused: what becomes of the sums.
        attributes: of the op.
    """
    layout: dict[str, Any] = {"layout": "NCHW"} if nchw else {}
    shapes = {
        "input": tuple(image[axis] for axis in _CHANNELS_FIRST) if nchw else image,
        "filter": tuple(taps[axis] for axis in _FILTERS_FIRST) if nchw else taps,
    }
    if fused == "bias_relu":
        shapes["operand0"] = (taps[3], 1, 1) if nchw else (taps[3],)
    elif fused:
        plain = ops.conv_2d(shapes["input"], shapes["filter"], **layout, **attributes)
        shapes["operand0"] = tuple(map(int, plain.signature.results[0].shape))
    if fused:
        attributes["epilogue"] = _EPILOGUES[fused]
    others = [shapes["operand0"]] if fused else []
    op = ops.conv_2d(shapes["input"], shapes["filter"], others, **layout, **attributes)

    def check(values: Values) -> Check:
        want = result_of(op, {n: value.astype(np.float64) for n, value in values.items()})
        return within_tolerance(op, values, {"result": want})

    return Case(
        name=name,
        op=op,
        operands=normal_operands(shapes),
        check=check,
        compute_dtype=op.compute_dtype,
        peers=(
            Peer(NUMPY, lambda values: lambda: result_of(op, values)),
            Peer(TORCH, lambda values: _torch_call(op, values, fused)),
            iree_peer(op, _mlir(op), [DATA_TILING]),
            *_ort(op),
            jax_peer(lambda *arrays: _jax_result(op, *arrays)),
        ),
    )


def _torch_call(op: Conv2d, values: Values, fused: Fused) -> Call:
    import torch

    images, weights = (torch.from_numpy(values[name]) for name in ("input", "filter"))
    other = torch.from_numpy(values["operand0"]) if fused else None
    bias = other.ravel() if other is not None and fused == "bias_relu" else None
    (top, _), (left, _) = op.padding
    if op.channels_last:
        images, weights = images.permute(_CHANNELS_FIRST), weights.permute(_FILTERS_FIRST)
        weights = weights.contiguous(memory_format=torch.channels_last)

    def call() -> Any:
        found = torch.nn.functional.conv2d(
            images, weights, bias, op.strides, (top, left), op.dilations, op.groups
        )
        found = found.permute(0, 2, 3, 1) if op.channels_last else found
        if fused == "sub":
            return found.sub_(other)
        return found.relu_() if fused else found

    return call


def _ort(op: Conv2d) -> list[Peer]:
    """The op Conv, which has channels first."""
    if op.channels_last:
        return []
    (top, bottom), (left, right) = op.padding
    attributes = {
        "strides": op.strides,
        "dilations": op.dilations,
        "pads": (top, left, bottom, right),
    }
    lists = ", ".join(f"{name} = [{', '.join(map(str, v))}]" for name, v in attributes.items())
    conv = f"Conv <group = {op.groups}, {lists}>"
    if not op.others:
        return [ort_peer(op, f"  result = {conv} (input, filter)")]
    return [
        ort_peer(
            op,
            f"""  filters = Constant <value_ints: ints = [{op.filters}]> ()
  bias = Reshape (operand0, filters)
  sums = {conv} (input, filter, bias)
  result = Relu (sums)""",
        )
    ]


def _jax_result(op: Conv2d, image: Any, taps: Any, other: Any = None) -> Any:
    import jax

    layouts = ("NHWC", "HWIO", "NHWC") if op.channels_last else ("NCHW", "OIHW", "NCHW")
    found = jax.lax.conv_general_dilated(
        image,
        taps,
        op.strides,
        op.padding,
        rhs_dilation=op.dilations,
        dimension_numbers=layouts,
        feature_group_count=op.groups,
    )
    if other is None:
        return found
    return found - other if is_difference(op) else jax.numpy.maximum(found + other, 0)


def is_difference(op: Conv2d) -> bool:
    """Whether a tensor of the result's shape is subtracted; else a bias is added."""
    return bool(op.others) and op.others["operand0"].shape == op.signature.results[0].shape


def _mlir(op: Conv2d) -> str:
    """The convolution of linalg for the layout, of a padded image."""
    operands = [tuple(map(int, one.shape)) for one in op.signature.operands]
    image, taps, result = operands[0], operands[1], operands[-1]
    pads: list[tuple[int, int]] = [(0, 0)] * 4
    rows, columns = (1, 2) if op.channels_last else (2, 3)
    pads[rows], pads[columns] = op.padding
    lows, highs = (", ".join(str(pad[end]) for pad in pads) for end in (0, 1))
    padded = tensor([extent + low + high for extent, (low, high) in zip(image, pads, strict=True)])
    weights, kind, by_channel = "%filter", tensor(taps), op.groups > 1
    name = "conv_2d_nhwc_hwcf" if op.channels_last else "conv_2d_nchw_fchw"
    head = ""
    if by_channel:
        name, kind = "depthwise_conv_2d_nhwc_hwc", tensor((*taps[:2], taps[3]))
        head = (
            f"%taps = tensor.collapse_shape %filter [[0], [1], [2, 3]] : {tensor(taps)} into {kind}"
        )
        weights = "%taps"
    strides, dilations = (
        f"dense<[{a}, {b}]> : tensor<2xi64>" for a, b in (op.strides, op.dilations)
    )
    out = tensor(result)
    return f"""  {head}
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %input low[{lows}] high[{highs}] {{
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  }} : {tensor(image)} to {padded}
  {filled("start", 0.0, result)}
  %sums = linalg.{name} {{strides = {strides}, dilations = {dilations}}}
    ins(%padded, {weights} : {padded}, {kind}) outs(%start : {out}) -> {out}
{_finish(op)}"""


def _finish(op: Conv2d) -> str:
    """The sums, or the larger of 0 and those with a bias."""
    shape = op.signature.results[0].shape
    out, filters = tensor(shape), tensor((op.filters,))
    if not op.others:
        return f"  return %sums : {out}"
    if is_difference(op):
        return f"""  %result = arith.subf %sums, %operand0 : {out}
  return %result : {out}"""
    axes, bias = "0, 1, 2", "%operand0"
    lines = ""
    if not op.channels_last:
        axes, bias = "0, 2, 3", "%bias"
        given = tensor(op.others["operand0"].shape)
        lines = f"  %bias = tensor.collapse_shape %operand0 [[0, 1, 2]] : {given} into {filters}"
    return f"""{lines}
  %biases = linalg.broadcast ins({bias} : {filters})
    outs(%start_empty : {out}) dimensions = [{axes}]
  %shifted = arith.addf %sums, %biases : {out}
  %zeros = arith.constant dense<0.0> : {out}
  %result = arith.maximumf %shifted, %zeros : {out}
  return %result : {out}"""


def result_of(op: Conv2d, values: Values) -> np.ndarray:
    """The convolution, and what is fused to it."""
    found = _convolved(op, values)
    if is_difference(op):
        np.subtract(found, values["operand0"], out=found)
    elif "operand0" in values:
        found += values["operand0"]
        np.maximum(found, 0, out=found)
    return found


def _convolved(op: Conv2d, values: Values) -> np.ndarray:
    """The windows, a strided view of the padded image, times the filter, by group."""
    rows, columns = (1, 2) if op.channels_last else (2, 3)
    pads: list[tuple[int, int]] = [(0, 0)] * 4
    pads[rows], pads[columns] = op.padding
    # NumPy 2.2, the newest for Python 3.10, has types for one axis only.
    slide: Any = np.lib.stride_tricks.sliding_window_view
    padded = np.pad(values["input"], pads)
    view = slide(padded, op.kernel, (rows, columns))
    index: list[Any] = [slice(None)] * 4
    index[rows], index[columns] = (slice(None, None, stride) for stride in op.strides)
    view = view[tuple(index)]
    g, seen, filters = op.groups, op.group_channels, op.group_filters
    taps = values["filter"]
    if g == op.image[3] and g > 1:
        path = "nyxcab,abc->nyxc" if op.channels_last else "ncyxab,cab->ncyx"
        depthwise = taps[:, :, 0] if op.channels_last else taps[:, 0]
        return np.einsum(path, view, depthwise)
    if op.channels_last:
        parts = [
            np.tensordot(
                view[:, :, :, i * seen : (i + 1) * seen],
                taps[..., i * filters : (i + 1) * filters],
                ((4, 5, 3), (0, 1, 2)),
            )
            for i in range(g)
        ]
        return np.concatenate(parts, 3) if g > 1 else parts[0]
    parts = [
        np.tensordot(
            view[:, i * seen : (i + 1) * seen],
            taps[i * filters : (i + 1) * filters],
            ((1, 4, 5), (1, 2, 3)),
        ).transpose(0, 3, 1, 2)
        for i in range(g)
    ]
    return np.ascontiguousarray(np.concatenate(parts, 1) if g > 1 else parts[0])
