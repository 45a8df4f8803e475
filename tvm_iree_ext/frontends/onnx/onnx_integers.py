"""Integers that IREE's front end computes as others: unsigned ones with sign, large ones as floats.

An operator is here where its results differed from ``onnx.reference`` for numbers of the type's
whole range (IREE 3.13.0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tvm_iree_ext.frontends.onnx.onnx_rewriting import (
    Attributes,
    Kind,
    NotRewritten,
    Rewrite,
    Values,
    Writer,
    given,
)

Condition: TypeAlias = Callable[[Any, Values], bool]

_FLOATS = (Kind.FLOAT, Kind.FLOAT16, Kind.BFLOAT16, Kind.DOUBLE)
_BITS: Mapping[int, int] = {Kind.UINT8: 8, Kind.UINT16: 16, Kind.UINT32: 32, Kind.UINT64: 64}
"""The bits of unsigned integers."""


def _kind(name: str, values: Values) -> int:
    """A type's number; 0 where it is not known."""
    try:
        return values.kind(name)
    except NotRewritten:
        return 0


def _is_of(*kinds: int) -> Condition:
    """Whether the first input is of one of these types."""
    return lambda node, values: _kind(node.input[0], values) in kinds


def _makes_bytes(node: Any, values: Values) -> bool:
    """Whether floats become uint8, which the front end takes for int8."""
    return Attributes(node)("to") == Kind.UINT8 and _is_of(*_FLOATS)(node, values)


def _by_int32(node: Any, _values: Values, write: Writer) -> None:
    write.give(write("Cast", write("Cast", node.input[0], to=Kind.INT32), to=Kind.UINT8))


def _unchanged(node: Any, _values: Values, write: Writer) -> None:
    write.give(node.input[0])


def _from_zero(node: Any, _values: Values, write: Writer) -> None:
    x = node.input[0]
    write.give(write("Sub", write("CastLike", write.constant(0, "i8"), x), x))


def _between(node: Any, _values: Values, write: Writer) -> None:
    found = node.input[0]
    for place, op in ((1, "Max"), (2, "Min")):
        if bound := given(node, place):
            found = write(op, found, bound)
    write.give(found)


def _sum(node: Any, _values: Values, write: Writer) -> None:
    write.give(write("ReduceSum", *node.input, **Attributes(node).all()))


def _as_floats(node: Any, values: Values, write: Writer) -> None:
    """MaxPool of bytes: float32 holds each."""
    x, kind = node.input[0], values.kind(node.input[0])
    said, outputs = Attributes(node).all(), len(node.output)
    found = write.several("MaxPool", [write("Cast", x, to=Kind.FLOAT)], outputs, **said)
    write.give(write("Cast", write("Cast", found[0], to=Kind.INT32), to=kind))
    for place in range(1, outputs):
        write.give(found[place], place)


def _at_most_one(node: Any, _values: Values, write: Writer) -> None:
    x = node.input[0]
    write.give(write("Min", x, write("CastLike", write.constant(1, "i8"), x)))


def _with_sign(node: Any, values: Values, write: Writer) -> None:
    """TopK of int64, which holds the numbers, or of 64 bits others in the same order."""
    x, said = node.input[0], Attributes(node).all()
    numbers = x
    if values.kind(x) == Kind.UINT64:
        numbers = write("BitwiseXor", x, write.constant(1 << 63, "u8"))
    ordered = write("Cast", numbers, to=Kind.INT64)
    _, places = write.several("TopK", [ordered, node.input[1]], 2, **said)
    write.give(write("GatherElements", x, places, axis=said.get("axis", -1)))
    write.give(places, 1)


_FLIPPED = "of numbers whose highest bit is flipped"
"""What the note of a node says that is right as it is."""


def _is_reduced(node: Any, values: Values) -> bool:
    """Whether a scatter combines bools, or takes the larger or smaller unsigned number."""
    kind, how = _kind(node.input[0], values), Attributes(node).text("reduction", "none")
    if kind == Kind.BOOL:
        return how != "none"
    return kind in _BITS and how in ("max", "min") and node.doc_string != _FLIPPED


def _scatter(node: Any, values: Values, write: Writer) -> None:
    """Of bools as int32; unsigned numbers have the order of those with sign when half is taken off,
    which is to flip their highest bit."""
    (x, places, updates), kind = node.input, values.kind(node.input[0])

    def changed(name: str) -> str:
        if kind == Kind.BOOL:
            return write("Cast", name, to=Kind.INT32)
        bits = _BITS[kind]
        return write("BitwiseXor", name, write.constant(1 << bits - 1, f"u{bits // 8}"))

    found = write(
        node.op_type,
        changed(x),
        places,
        changed(updates),
        doc_string="" if kind == Kind.BOOL else _FLIPPED,
        **Attributes(node).all(),
    )
    write.give(write("Cast", found, to=Kind.BOOL) if kind == Kind.BOOL else changed(found))


_IS_UNSIGNED = _is_of(*_BITS)

INTEGERS: Mapping[str, tuple[Condition, Rewrite]] = {
    "Abs": (_IS_UNSIGNED, _unchanged),
    "Cast": (_makes_bytes, _by_int32),
    "Clip": (_IS_UNSIGNED, _between),
    "MaxPool": (_is_of(Kind.UINT8), _as_floats),
    "Neg": (_is_of(Kind.INT32, Kind.INT64), _from_zero),
    "PRelu": (_IS_UNSIGNED, _unchanged),
    "ReduceL1": (_IS_UNSIGNED, _sum),
    "ScatterElements": (_is_reduced, _scatter),
    "ScatterND": (_is_reduced, _scatter),
    "Sign": (_IS_UNSIGNED, _at_most_one),
    "TopK": (_IS_UNSIGNED, _with_sign),
}
"""Operators, which of their nodes the front end computes wrongly, and what writes these."""


def _only(condition: Condition, rewrite: Rewrite) -> Rewrite:
    def rewrite_those(node: Any, values: Values, write: Writer) -> None:
        if not condition(node, values):
            raise NotRewritten("other types")
        rewrite(node, values, write)

    return rewrite_those


INTEGER_REWRITES: Mapping[str, Rewrite] = {op: _only(*both) for op, both in INTEGERS.items()}
