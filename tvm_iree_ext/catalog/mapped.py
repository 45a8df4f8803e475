"""map_load and map_store: reference, random cases, JSON examples."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes, scalar_text
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.catalog.base.array_regions import FUNCTIONS, as_number
from tvm_iree_ext.catalog.base.entry import OpEntry, Run, Values, exact
from tvm_iree_ext.catalog.base.random_arrays import pick, random_array, small_numbers
from tvm_iree_ext.catalog.base.random_regions import sometimes_empty
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.mapped.mapped import IndexRegionLike, Mapped

Generator = np.random.Generator


def index_function(op: Mapped, numbers: Mapping[str, Any]) -> Callable[..., Any]:
    """The region as a function of indices; ``numbers`` are extents and its numbers of a call.

    Raises:
        OpError: for a region given as a Python callable, which knows TIR expressions only.
    """
    text = op.region.source
    if text is None:
        raise OpError(f"{op.name}: the reference needs the region as text, such as 'arg1, arg0, 0'")

    def call(*index: int) -> Any:
        names = dict(numbers) | {f"arg{i}": at for i, at in enumerate(index)}
        return scalar_text.evaluate(text, names, FUNCTIONS)

    return call


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`."""
    assert isinstance(op, Mapped)
    extents = op.signature.bind(
        op.name,
        [
            None if one.role == "scalar" else operands[one.name].shape
            for one in op.signature.arguments
        ],
    )
    scalars = {one.name: as_number(operands[one.name], one.dtype) for one in op.region_scalars}
    function = index_function(op, {**extents, **scalars})
    if op.loads:
        (shape,) = op.signature.result_shapes(extents)
        return {"output": reference.map_load(operands["source"], shape, function)}
    return {"output": reference.map_store(operands["input"], operands["output_init"], function)}


def _permuted(rng: Generator) -> tuple[list[int], list[int], list[str]]:
    """Domain, other tensor, and a place that is a permutation, flipped, shifted or spread."""
    rank = int(rng.integers(1, 4))
    domain = [int(pick(rng, (1, 2, 5, 7, 16, 31, 33, 40))) for _ in range(rank)]
    if np.prod(domain) > 3000:
        domain = [min(extent, 12) for extent in domain]
    other: list[int] = []
    place: list[str] = []
    for dim in rng.permutation(rank):
        extent = domain[dim]
        shift, scale = int(rng.integers(-4, 5)), int(pick(rng, (1, 1, 1, -1, 2, 3, -2)))
        if scale < 0:
            shift += extent - 1
        place.append(f"{scale} * arg{dim} + {shift}" if (scale, shift) != (1, 0) else f"arg{dim}")
        other.append(max(1, extent * abs(scale) + int(rng.integers(-3, 4))))
    if rng.random() < 0.2:  # an axis that only one index is on
        other.insert(0, 3)
        place.insert(0, str(rng.integers(-1, 4)))
    return domain, other, place


def _reshaped(rng: Generator) -> tuple[list[int], list[int], list[str]]:
    """Domain and other tensor with the same elements in row-major order, or nearly so."""
    a, b = int(rng.integers(1, 20)), int(rng.integers(1, 20))
    if rng.random() < 0.5:
        return [a * b], [a, b], [f"arg0 // {b}", f"arg0 % {b}"]
    return [a, b], [a * b + int(rng.integers(-2, 3) if a * b > 3 else 0)], [f"{b} * arg0 + arg1"]


def _case(
    rng: Generator,
) -> tuple[tuple[Extent, ...], list[int], tuple[Extent, ...], list[int], list[str]]:
    domain, other, place = (_permuted if rng.random() < 0.7 else _reshaped)(rng)
    domain, other = sometimes_empty(rng, domain), sometimes_empty(rng, other)

    def shape(name: str, numbers: list[int], symbolic: bool) -> tuple[Extent, ...]:
        return tuple(
            f"{name}{i}" if symbolic and rng.random() < 0.6 else extent
            for i, extent in enumerate(numbers)
        )

    symbolic = bool(rng.random() < 0.3)
    return shape("d", domain, symbolic), domain, shape("e", other, symbolic), other, place


def _values(rng: Generator, shape: list[int], dtype: str) -> np.ndarray:
    if dtype in dtypes.FLOATS:
        return rng.standard_normal(shape).astype(dtypes.numpy_dtype(dtype))
    if dtype not in dtypes.INTEGERS:
        return small_numbers(rng, tuple(shape), dtype)
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


_DTYPES = dtypes.ELEMENTS


def random_load(rng: Generator) -> tuple[Mapped, dict[str, Any]]:
    """An op and operands that fit it."""
    _, domain, other_shape, other, place = _case(rng)
    dtype = pick(rng, _DTYPES)
    padding = pick(rng, ("0", "1") if dtype != "bool" else ("0 > 1", "1 > 0"))
    if dtype == "float32" and rng.random() < 0.5:
        padding = pick(rng, ("-2.5", "select(arg0 > 3, 1.0, 2.0)"))
    output: tuple[Extent, ...] = tuple(domain)
    if isinstance(other_shape[0], str) and rng.random() < 0.5 and domain[0] == other[0]:
        output = (other_shape[0], *domain[1:])
    region, scalars = _region(rng, place, padding, dtype)
    op = ops.map_load(TensorType(other_shape, dtype), output, region, dtype=dtype)
    return op, {"source": _values(rng, other, dtype), **scalars}


def random_store(rng: Generator) -> tuple[Mapped, dict[str, Any]]:
    """An op and operands that fit it; no two elements go to one place."""
    domain_shape, domain, other_shape, other, place = _case(rng)
    dtype = pick(rng, _DTYPES)
    mask = pick(rng, ("1 > 0", "1 > 0", "arg0 > 2", "(arg0 + 1) % 3 > 0"))
    region, scalars = _region(rng, place, mask)
    op = ops.map_store(TensorType(domain_shape, dtype), TensorType(other_shape, dtype), region)
    operands = {"input": _values(rng, domain, dtype), "output_init": _values(rng, other, dtype)}
    return op, operands | scalars


def _region(
    rng: Generator, place: list[str], value: str, dtype: str = ""
) -> tuple[IndexRegionLike, dict[str, Any]]:
    """The region that yields a place and a value, and the numbers that it takes of a call.

    ``dtype`` is the elements', where the value is one.
    """
    kinds: dict[str, str] = {}
    numbers: dict[str, Any] = {}
    if rng.random() < 0.15:
        kinds["shift"], numbers["shift"] = "int64", int(rng.integers(-3, 4))
        place = [f"{place[0]} + shift", *place[1:]]
    if dtype and rng.random() < 0.15:
        kinds["padding"], value = dtype, "padding"
        number = random_array(rng, (), dtype) if dtype == "bool" else small_numbers(rng, (), dtype)
        numbers["padding"] = number.item()
    elif not dtype and rng.random() < 0.15:
        kinds["most"], value = pick(rng, ("int32", "uint8", "int64")), "arg0 < most"
        numbers["most"] = int(rng.integers(0, 20))
    text = ", ".join([*place, value])
    return (ops.region(text, **kinds), numbers) if kinds else (text, {})


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case in the format of the dialect's examples: its text yields all values, with commas."""
    attributes, inputs = case["attrs"], case["inputs"]
    region = attributes["region"]["yields"]
    if case["op"].endswith("map_load"):
        op = ops.map_load(inputs["source"], attributes["output_shape"], region)
        return {"result": run(op, inputs)["output"]}
    op = ops.map_store(inputs["input"], inputs["output"], region)
    operands = {"input": inputs["input"], "output_init": inputs["output"]}
    return {"result": run(op, operands)["output"]}


MAP_LOAD = OpEntry(
    name="iree_linalg_ext.map_load",
    summary="each element from a place that is a function of its index, or padding",
    make=ops.map_load,
    reference=run_reference,
    tolerance=exact,
    random_case=random_load,
    run_example=run_example,
)

MAP_STORE = OpEntry(
    name="iree_linalg_ext.map_store",
    summary="each element to a place that is a function of its index, where a mask holds",
    make=ops.map_store,
    reference=run_reference,
    tolerance=exact,
    random_case=random_store,
    run_example=run_example,
)
