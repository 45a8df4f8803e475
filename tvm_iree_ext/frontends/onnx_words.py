"""Values of ONNX's narrow types as words of 8 bits, which both front ends take.

A number of a float of 8 or 4 bits is carried as its bits, in a ``uint8``; an integer of 4 or 2
bits as the number, in an ``int8`` or ``uint8``.  Conversions from floats are look-ups in a table
of all of a type's numbers; those to them count the numbers that lie below, by borders between
neighbours that ``ml_dtypes`` tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_iree_ext.frontends.onnx_graphs import copied
from tvm_iree_ext.frontends.onnx_model import OnnxModel, typed
from tvm_iree_ext.frontends.onnx_rewriting import (
    Attributes,
    NotRewritten,
    Rewrite,
    Values,
    Writer,
    given,
    within,
)

_FLOATS = {  # by the names of onnx.TensorProto: the bit of the sign, 0 where there is none
    "FLOAT8E4M3FN": 0x80,
    "FLOAT8E4M3FNUZ": 0x80,
    "FLOAT8E5M2": 0x80,
    "FLOAT8E5M2FNUZ": 0x80,
    "FLOAT4E2M1": 0x8,
    "FLOAT8E8M0": 0,
}
_INTEGERS = {"INT4": (-8, 7), "UINT4": (0, 15), "INT2": (-2, 1), "UINT2": (0, 3)}
_RANGES = {
    **_INTEGERS,
    "INT8": (-128, 127),
    "UINT8": (0, 255),
    "INT16": (-(2**15), 2**15 - 1),
    "UINT16": (0, 2**16 - 1),
}
_MOVES = {  # operators that move numbers, whatever they are
    *("Compress", "Concat", "Constant", "DepthToSpace", "Expand", "Flatten", "Gather"),
    *("GatherElements", "GatherND", "Identity", "If", "Loop", "Reshape", "ReverseSequence"),
    *("Scan", "Shape", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile"),
    *("Transpose", "Unsqueeze", "Where"),
}
_FAR = 3e38  # beyond the largest number of each type but E8M0


def in_words(model: OnnxModel) -> OnnxModel | None:
    """A model whose values of narrow types are words; None where it has none.

    Also None where another operator takes one than conversions, quantisation, and those that only
    move numbers.
    """
    import onnx

    values = Values(model)
    names = {name for node in model.nodes() for name in (*node.input, *node.output) if name}
    narrow = {name for name in names if _is_narrow(values, name)}
    if not narrow:
        return None
    proto = copied(model.proto)
    graphs = list(replace(model, proto=proto).graphs())
    try:
        for graph in graphs:
            nodes = _wrapped_inputs(graph) if graph is proto.graph else []
            for node in graph.node:
                if narrow.isdisjoint((*node.input, *node.output)):
                    nodes.append(node)
                elif node.op_type in _MOVES:
                    nodes.append(_in_words(node))
                elif node.op_type in _CONVERSIONS:
                    writer = Writer(node, f"{node.output[0]}_words")
                    _CONVERSIONS[node.op_type](node, values, writer)
                    nodes += writer.nodes
                else:
                    return None
            written = [copied(node) for node in nodes]
            del graph.node[:]
            graph.node.extend(written)
    except NotRewritten:
        return None
    for graph in graphs:
        for value in (*graph.input, *graph.value_info, *graph.output):
            kind = value.type.tensor_type
            if word := _WORDS.get(_name(kind.elem_type)):
                kind.elem_type = onnx.TensorProto.DataType.Value(word)
        tensors = [_tensor(one) for one in graph.initializer]
        del graph.initializer[:]
        graph.initializer.extend(tensors)
    return replace(model, proto=typed(proto))


_WORDS = {
    **dict.fromkeys(_FLOATS, "UINT8"),
    **{name: "INT8" if least else "UINT8" for name, (least, _) in _INTEGERS.items()},
}


def _name(kind: int) -> str:
    import onnx

    return str(onnx.TensorProto.DataType.Name(kind))


def _is_narrow(values: Values, name: str) -> bool:
    try:
        return _name(values.kind(name)) in _WORDS
    except NotRewritten:  # a sequence
        return False


def _tensor(tensor: Any) -> Any:
    """A constant in words, or as it is."""
    import onnx

    name = _name(tensor.data_type)
    if name not in _WORDS:
        return copied(tensor)
    array = onnx.numpy_helper.to_array(tensor)
    array = array.view("u1") if name in _FLOATS else array.astype(_WORDS[name].lower())
    return onnx.numpy_helper.from_array(array, tensor.name)


def _in_words(node: Any) -> Any:
    """A node that moves numbers; a constant becomes words."""
    if node.op_type != "Constant" or node.attribute[0].name != "value":
        return node
    node = copied(node)
    node.attribute[0].t.CopyFrom(_tensor(node.attribute[0].t))
    return node


def _wrapped_inputs(graph: Any) -> list[Any]:
    """Nodes by which inputs of integers with sign become numbers, where their words are bits."""
    import onnx

    nodes = []
    for value in graph.input:
        name = _name(value.type.tensor_type.elem_type)
        if name not in ("INT4", "INT2"):
            continue
        own = onnx.helper.make_node("Identity", [], [value.name], name=f"words of {value.name}")
        value.name += "_words"
        write = Writer(own, value.name)
        write.give(_wrapped(value.name, name, write))
        nodes += write.nodes
    return nodes


def _wrapped(x: str, name: str, write: Writer) -> str:
    """Integers as a narrow type keeps them: their lowest bits."""
    import onnx

    least, most = _INTEGERS[name]
    count = write.constant(most - least + 1, "i4")
    rest = write("Mod", write("Cast", x, to=onnx.TensorProto.INT32), count)
    if least:
        is_below = write("Greater", rest, write.constant(most, "i4"))
        rest = write("Where", is_below, write("Sub", rest, count), rest)
    return write("Cast", rest, to=onnx.TensorProto.DataType.Value(_WORDS[name]))


def _number(x: str, values: Values, write: Writer) -> str:
    """The numbers of a value of any type: of floats in words, float32."""
    import onnx

    name = _name(values.kind(x))
    if name not in _FLOATS:
        return x
    kind = onnx.helper.tensor_dtype_to_np_dtype(values.kind(x))
    numbers = np.arange(_codes(name), dtype="u1").view(kind).astype("f4")
    places = write("Cast", x, to=onnx.TensorProto.INT32)
    return write("Gather", write.constant(numbers), places, axis=0)


def _codes(name: str) -> int:
    return 16 if name == "FLOAT4E2M1" else 256


@dataclass(frozen=True)
class _Borders:
    """How numbers become a type's: ``above[k]`` is the largest that is at most code ``k``."""

    above: np.ndarray
    largest: float | None
    nan: int
    beyond: tuple[int, int]


def _borders(name: str, kind: np.dtype, saturates: bool, rounding: str) -> _Borders:
    """The borders between neighbours, by what ``ml_dtypes`` makes of the numbers between them."""

    def code(number: Any) -> int:
        with np.errstate(over="ignore", invalid="ignore"):
            return int(np.float32(number).astype(kind).view("u1"))

    zero = np.float32(0)
    if name == "FLOAT8E8M0":  # of the magnitude; what is not finite becomes NaN
        powers = np.ldexp(np.float32(1), np.arange(-126, 128)).astype("f4")
        above = {
            "up": np.append(zero, powers),
            "down": np.nextafter(powers, zero),
            "nearest": np.append(powers[0] / 2, np.nextafter(powers * np.float32(1.5), zero)),
        }[rounding]
        largest = float(powers[-1]) if saturates else None
        return _Borders(above.astype("f4"), largest, 0xFF, (0xFF, 0xFF))
    sign = _FLOATS[name]
    numbers = np.arange(sign, dtype="u1").view(kind).astype("f4")
    numbers = numbers[np.isfinite(numbers)]
    step = numbers[-1] - numbers[-2]
    middles = (numbers + np.append(numbers[1:], numbers[-1] + step)) / 2
    stays = np.array([code(middle) == place for place, middle in enumerate(middles)])
    above = np.where(stays, middles, np.nextafter(middles, zero)).astype("f4")
    if saturates or name == "FLOAT4E2M1":
        return _Borders(above[:-1], float(numbers[-1]), code(np.nan), (0, 0))
    return _Borders(above, None, code(np.nan), (code(_FAR), code(-_FAR)))


def _encoded(x: str, source: int, name: str, said: Attributes, write: Writer) -> str:
    """Numbers as the words of a narrow float, rounded to the nearest, of two the even one."""
    import onnx

    kinds = onnx.TensorProto
    if source == kinds.DOUBLE:
        raise NotRewritten("float64 would be rounded twice")
    kind = onnx.helper.tensor_dtype_to_np_dtype(kinds.DataType.Value(name))
    borders = _borders(name, kind, bool(said("saturate", 1)), said.text("round_mode", "up"))
    x = write("Cast", x, to=kinds.FLOAT) if source != kinds.FLOAT else x
    size = write("Abs", x)
    if borders.largest is not None:
        size = write("Min", size, write.constant(borders.largest, "f4"))
    last = write("Unsqueeze", size, write.constant([-1], "i8"))
    is_above = write("Greater", last, write.constant(borders.above))
    ones = write("Cast", is_above, to=kinds.INT32)
    code = write("ReduceSum", ones, write.constant([-1], "i8"), keepdims=0)
    if sign := _FLOATS[name]:
        zero = write.constant(0, "f4")
        is_below = write("Less", write("Reciprocal", x), zero)  # of -0, too, but not of -infinity
        negative = write("Or", write("Less", x, zero), is_below)
        words = [code, write("Add", code, write.constant(sign, "i4"))]
        if borders.largest is None:
            is_beyond = write("Greater", code, write.constant(len(borders.above) - 1, "i4"))
            words = [
                write("Where", is_beyond, write.constant(beyond, "i4"), word)
                for beyond, word in zip(borders.beyond, words, strict=True)
            ]
        if name.endswith("FNUZ"):  # which have no -0
            negative = write("And", negative, write("Greater", code, write.constant(0, "i4")))
        code = write("Where", negative, words[1], words[0])
    none = write("IsNaN", x)
    if name == "FLOAT8E8M0":
        none = write("Or", none, write("IsInf", x))
    code = write("Where", none, write.constant(borders.nan, "i4"), code)
    return write("Cast", code, to=kinds.UINT8)


def _converted(x: str, source: int, target: int, said: Attributes, write: Writer) -> str:
    """Numbers of a type in another, in words where it is narrow."""
    name = _name(target)
    if name in _FLOATS:
        return _encoded(x, source, name, said, write)
    if name in _INTEGERS:
        return _wrapped(x, name, write)
    return x if source == target else write("Cast", x, to=target)


def _source(kind: int) -> int:
    """The type that numbers of a type have after :func:`_number`."""
    import onnx

    name = _name(kind)
    plain = "FLOAT" if name in _FLOATS else _WORDS.get(name, name)
    return int(onnx.TensorProto.DataType.Value(plain))


def _cast(node: Any, values: Values, write: Writer) -> None:
    said, x = Attributes(node), node.input[0]
    kind = said("to") if node.op_type == "Cast" else values.kind(node.input[1])
    source = _source(values.kind(x))
    write.give(_converted(_number(x, values, write), source, kind, said, write))


def quantize(node: Any, values: Values, write: Writer) -> None:
    """QuantizeLinear of each type, with scales for all, along an axis, or of blocks."""
    import onnx

    said, (x, scale) = Attributes(node), node.input[:2]
    kinds, zero = onnx.TensorProto, given(node, 2)
    target = values.kind(zero) if zero else said("output_dtype", 0) or kinds.UINT8
    parts = write("Div", write("Cast", x, to=kinds.FLOAT), _spread(node, 1, values, write))
    if (name := _name(target)) in _FLOATS:
        write.give(_encoded(parts, kinds.FLOAT, name, said, write))
        return
    if name not in _RANGES or values.kind(scale) == kinds.DOUBLE:
        raise NotRewritten(f"quantisation to {name}")
    whole = write("Round", parts)
    if zero:
        whole = write("Add", whole, _spread(node, 2, values, write))
    word = kinds.DataType.Value(_WORDS.get(name, name))
    write.give(within(whole, _RANGES[name], word, write))


def dequantize(node: Any, values: Values, write: Writer) -> None:
    """DequantizeLinear of each type, with scales as those of :func:`quantize`."""
    import onnx

    x, scale = node.input[:2]
    kinds = onnx.TensorProto
    if values.kind(scale) == kinds.DOUBLE:
        raise NotRewritten("scales of float64")
    numbers = write("Cast", _number(x, values, write), to=kinds.FLOAT)
    if given(node, 2):
        numbers = write("Sub", numbers, _spread(node, 2, values, write))
    product = write("Mul", numbers, _spread(node, 1, values, write))
    kind = Attributes(node)("output_dtype", 0) or values.kind(scale)
    write.give(write("Cast", product, to=kind))


def _spread(node: Any, place: int, values: Values, write: Writer) -> str:
    """Scales or zero points of a node, in float32 and of a shape that its first input takes."""
    import onnx

    said, name = Attributes(node), node.input[place]
    numbers = write("Cast", _number(name, values, write), to=onnx.TensorProto.FLOAT)
    rank, own = values.rank(node.input[0]), values.rank(name)
    axis, block = said("axis", 1) % max(rank, 1), said("block_size", 0)
    if own == 1 and rank > 1 and not block:
        extents = [-1 if one == axis else 1 for one in range(rank)]
        return write("Reshape", numbers, write.constant(extents, "i8"))
    if not block:
        return numbers
    extents = list(values.shape(name))
    wide = [*extents[: axis + 1], block, *extents[axis + 1 :]]
    numbers = write("Unsqueeze", numbers, write.constant([axis + 1], "i8"))
    numbers = write("Expand", numbers, write.constant(wide, "i8"))
    extents[axis] *= block
    numbers = write("Reshape", numbers, write.constant(extents, "i8"))
    length = values.shape(node.input[0])[axis]
    return write("Slice", numbers, *(write.constant([one], "i8") for one in (0, length, axis)))


_CONVERSIONS: Mapping[str, Rewrite] = {
    "Cast": _cast,
    "CastLike": _cast,
    "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
}
