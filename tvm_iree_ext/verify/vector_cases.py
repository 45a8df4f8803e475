"""The specification's cases of vector ops: each becomes a program, or a refusal with its code."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.vector.ir.core import Value
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import (
    BufferType,
    RankedTensorType,
    ScalarType,
    Type,
    VectorType,
)
from tvm_iree_ext.vector.programs.builder import Builder, ProgramBuilder, program
from tvm_iree_ext.vector.programs.vector_program import VectorProgram

Made = Value | None
Run = Callable[[VectorProgram, Mapping[str, Any]], Mapping[str, np.ndarray]]
Make = Callable[[ProgramBuilder, Mapping[str, Value], Mapping[str, Any]], Made]

# Operands that are memory: of these ops a tensor, of all others a buffer.
_MEMORY = ("source", "dest", "base")
_ON_TENSORS = ("vector.transfer_read", "vector.transfer_write")
_WITHOUT_MEMORY = (
    "vector.broadcast",
    "vector.splat",
    "vector.multi_reduction",
    "vector.insert",
    "vector.insertelement",
    "vector.insert_strided_slice",
)


def _transfer(attrs: Mapping[str, Any], rank: int) -> dict[str, Any]:
    known = {name: attrs[name] for name in ("permutation_map", "in_bounds") if name in attrs}
    return {"indices": attrs.get("indices", [0] * rank), **known}


def _read(b: Builder, v: Mapping[str, Value], attrs: Mapping[str, Any]) -> Made:
    padding = v.get("padding", attrs.get("padding", 0))
    return b.transfer_read(
        v["source"],
        shape=attrs["result_shape"],
        padding=padding,
        mask=v.get("mask"),
        **_transfer(attrs, v["source"].rank),
    )


def _write(b: Builder, v: Mapping[str, Value], attrs: Mapping[str, Any]) -> Made:
    return b.transfer_write(
        v["vector"], v["dest"], mask=v.get("mask"), **_transfer(attrs, v["dest"].rank)
    )


def _elementwise(name: str) -> Make:
    return lambda b, v, _: b.elementwise(name, v["lhs"], v["rhs"])


def _at(v: Mapping[str, Value], attrs: Mapping[str, Any], name: str = "indices") -> list[Any]:
    return attrs.get(name, [0] * v["base"].rank)


def _positions(b: ProgramBuilder, attrs: Mapping[str, Any]) -> list[Any]:
    """Positions, of which the word "dynamic" stands for a run-time index."""
    dynamic = [
        b.argument(f"i{n}", "index") for n, p in enumerate(attrs["position"]) if p == "dynamic"
    ]
    return [dynamic.pop(0) if p == "dynamic" else p for p in attrs["position"]]


def _loop(b: ProgramBuilder, v: Mapping[str, Value], attrs: Mapping[str, Any]) -> Made:
    extent = b.argument("extent", "index")
    with b.loop(0, extent) as loop:
        return b.extract(v["vector"], loop.index)


_MAKE: dict[str, Make] = {
    "vector.transfer_read": _read,
    "vector.transfer_write": _write,
    "vector.contract": lambda b, v, a: b.contract(
        v["lhs"],
        v["rhs"],
        v["acc"],
        indexing_maps=a["indexing_maps"],
        iterator_types=a["iterator_types"],
        kind=a.get("kind", "add"),
    ),
    "vector.multi_reduction": lambda b, v, a: b.multi_reduction(
        v["source"], v["acc"], a["reduction_dims"], kind=a["kind"]
    ),
    "vector.reduction": lambda b, v, a: b.reduction(v["vector"], v.get("acc"), kind=a["kind"]),
    "vector.transpose": lambda b, v, a: b.transpose(v["vector"], a["permutation"]),
    "vector.extract_strided_slice": lambda b, v, a: b.extract_strided_slice(
        v["vector"], a["offsets"], a["sizes"], a["strides"]
    ),
    "vector.insert_strided_slice": lambda b, v, a: b.insert_strided_slice(
        v["value"], v["dest"], a["offsets"], a["strides"]
    ),
    "vector.extract": lambda b, v, a: b.extract(v["vector"], _positions(b, a)),
    "vector.insert": lambda b, v, a: b.insert_at(v["value"], v["dest"], _positions(b, a)),
    "vector.extractelement": lambda b, v, a: b.extractelement(
        v["vector"], b.argument("position", "index")
    ),
    "vector.insertelement": lambda b, v, a: b.insertelement(
        v["value"], v["dest"], b.argument("position", "index")
    ),
    "vector.broadcast": lambda b, v, a: b.broadcast(v["source"], a["result_shape"]),
    "vector.splat": lambda b, v, a: b.splat(v["source"], a["result_shape"]),
    "vector.shuffle": lambda b, v, a: b.shuffle(v["v1"], v["v2"], a["mask"]),
    "vector.fma": lambda b, v, a: b.fma(v["lhs"], v["rhs"], v["acc"]),
    "vector.outerproduct": lambda b, v, a: b.outerproduct(
        v["lhs"], v["rhs"], v.get("acc"), kind=a.get("kind", "add")
    ),
    "vector.gather": lambda b, v, a: b.gather(
        v["base"], _at(v, a, "offsets"), v["indices"], v["mask"], v["pass_thru"]
    ),
    "vector.scatter": lambda b, v, a: b.scatter(
        v["base"], _at(v, a, "offsets"), v["indices"], v["mask"], v["value"]
    ),
    "vector.load": lambda b, v, a: b.load(v["base"], _at(v, a), a["result_shape"]),
    "vector.store": lambda b, v, a: b.store(v["value"], v["base"], _at(v, a)),
    "vector.maskedload": lambda b, v, a: b.maskedload(
        v["base"], _at(v, a), v["mask"], v["pass_thru"]
    ),
    "vector.maskedstore": lambda b, v, a: b.maskedstore(
        v["value"], v["base"], _at(v, a), v["mask"]
    ),
    "vector.shape_cast": lambda b, v, a: b.shape_cast(v["vector"], a["result_shape"]),
    "vector.cast": lambda b, v, a: b.cast(v["vector"], a["result_shape"]),
    "vector.reshape": lambda b, v, a: b.reshape(
        v["vector"], a["input_shape"], a["output_shape"], a["fixed_vector_sizes"]
    ),
    "loop": _loop,
    "type": lambda b, v, a: None,
    **{
        f"arith.{name}": _elementwise(f"arith.{name}")
        for name in ("addf", "subf", "mulf", "maximumf", "addi")
    },
}


def is_vector_op(op: str) -> bool:
    """Whether a case of this op is one of these."""
    return op in _MAKE


def program_of(case: Mapping[str, Any]) -> tuple[VectorProgram, dict[str, Any]]:
    """The program of a case, and its inputs by name.

    Raises:
        VectorError: for attributes that break a rule of the op.
    """
    op, attrs = case["op"], case["attrs"]
    inputs = dict(case["inputs"])
    b = program(op.partition(".")[2])
    with b:
        values = {
            name: b.argument(name, _type_of(op, name, array)) for name, array in inputs.items()
        }
        made = _MAKE[op](b, values, attrs)
        if "position" in [argument.hint for argument in b.entry.arguments]:
            inputs["position"] = attrs["position"][0]
        (name,) = case["expected"]
        b.returns(**({} if made is None else {name: made}))
    return b.program, inputs


def _type_of(op: str, name: str, array: np.ndarray) -> Type:
    dtype = str(array.dtype)
    if name in _MEMORY and op not in _WITHOUT_MEMORY:
        kind = RankedTensorType if op in _ON_TENSORS else BufferType
        return kind(array.shape, dtype)
    return VectorType(array.shape, dtype) if array.ndim else ScalarType(dtype)


def results(
    case: Mapping[str, Any], expected: Mapping[str, np.ndarray], run: Run
) -> dict[str, np.ndarray]:
    """Results of a case, computed by ``run``; lanes that have no defined value are as expected.

    Raises:
        VectorError: for attributes that break a rule of the op.
    """
    made, inputs = program_of(case)
    made.verify()
    return {
        name: np.where(_ignored(case, expected[name]), expected[name], array).astype(array.dtype)
        for name, array in run(made, inputs).items()
    }


def meaning(program: VectorProgram, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Evaluate a program in NumPy: a way to run it."""
    return program.evaluate(**inputs)


def _ignored(case: Mapping[str, Any], expected: np.ndarray) -> np.ndarray:
    """Mask of the lanes of a case's result that have no defined value."""
    if case["attrs"].get("dont_care") == "lanes whose expected value is -1":
        return expected == -1
    return np.zeros(expected.shape, bool)


def refusal(case: Mapping[str, Any]) -> str:
    """The code with which a case is refused; empty when it is not."""
    op, attrs = case["op"], dict(case["attrs"])
    try:
        with program("rejected") as b:
            types = {name: _parse(op, name, text) for name, text in case["types"].items()}
            result = types.pop("result", None)
            if result is not None:
                attrs.setdefault("result_shape", result.shape)
            values = {name: b.argument(name, type) for name, type in types.items()}
            if op in ("vector.maskedload", "vector.scatter"):
                values.setdefault("base", b.argument("base", BufferType(("?",), "f32")))
            _MAKE[op](b, values, attrs)
            b.returns()
    except VectorError as error:
        return error.code
    return ""


_TYPE = re.compile(r"(tensor )?((?:(?:\d+|\?)x)*)(\w+?)(?: strides \[([\d, ]+)\])?")


def _parse(op: str, name: str, text: str) -> Type:
    """A type such as ``4x8xf32``, ``tensor ?x?xf32`` or ``8x8xf32 strides [16, 2]``."""
    match = _TYPE.fullmatch(text)
    if match is None or not dtypes.is_dtype(match.group(3)):
        raise ValueError(f"{text!r} is not a type")
    is_tensor, extents, dtype, strides = match.groups()
    shape = tuple(int(e) if e.isdecimal() else e for e in extents.split("x")[:-1])
    if name in _MEMORY and op not in _WITHOUT_MEMORY:
        if is_tensor or op in _ON_TENSORS:
            return RankedTensorType(shape, dtype)
        numbers = None if strides is None else tuple(map(int, strides.split(",")))
        return BufferType(shape, dtype, numbers)
    return VectorType(_static(shape), dtype) if shape else ScalarType(dtype)


def _static(shape: Sequence[int | str]) -> tuple[Any, ...]:
    """The extents of a vector type; it is its place to refuse those that are no numbers."""
    return tuple(shape)
