"""``custom_op``: regions known both over tiles and over arrays, random cases, JSON examples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.catalog.base.entry import EXACT, OpEntry, Run, Tolerance, Values
from tvm_iree_ext.catalog.base.random_arrays import pick, random_array, small_numbers
from tvm_iree_ext.catalog.base.random_regions import sometimes_empty
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.custom_op import custom_op_tiles
from tvm_iree_ext.ops.families.custom_op.custom_op import CustomOp
from tvm_iree_ext.ops.families.custom_op.custom_op_tiles import Tile

Generator = np.random.Generator


_ARITHMETIC = tuple(one for one in dtypes.ELEMENTS if one != "bool")
_COMPUTED = tuple(one for one in _ARITHMETIC if one not in dtypes.FLOATS8)
"""The types of forms that round more often than once."""


@dataclass(frozen=True)
class _RegionForm:
    """A region over tiles, the same over arrays, and what it goes with.

    ``operands`` are the axes of each by dims and symbols; the last ``outputs`` are the outputs.
    ``dtypes`` are the elements of random cases.
    """

    tile: Callable[..., Any]
    array: Callable[..., Any]
    iterators: tuple[str, ...]
    symbols: int
    operands: tuple[str, ...]
    outputs: int = 1
    dtypes: tuple[str, ...] = _COMPUTED

    @property
    def maps(self) -> list[str]:
        """The indexing maps as text."""
        dims = ", ".join(f"d{i}" for i in range(len(self.iterators)))
        symbols = ", ".join(f"s{i}" for i in range(self.symbols))
        head = f"({dims})[{symbols}]" if symbols else f"({dims})"
        return [f"{head} -> ({', '.join(one.split())})" for one in self.operands]


def _two_matmuls(t0: Tile, t1: Tile, t2: Tile, t3: Tile, t4: Tile) -> tuple[Tile, Tile]:
    first = custom_op_tiles.store(t0 @ t1 + t3)
    return first, first @ t2 + t4


def _two_matmuls_array(t0: Any, t1: Any, t2: Any, t3: Any, t4: Any) -> tuple[Any, Any]:
    return t0 @ t1 + t3, (t0 @ t1 + t3) @ t2 + t4


def _positions(tile: Tile) -> Tile:
    start = custom_op_tiles.index(0)
    return custom_op_tiles.compute(tile.extents, lambda i: start + i, tile.dtype)


def _transpose(tile: Tile, out: Tile) -> Tile:
    return custom_op_tiles.compute(out.extents, lambda i, j: tile[j, i] + out[i, j], out.dtype)


def _row_sums(tile: Tile, out: Tile) -> Tile:
    return custom_op_tiles.reduce(tile, 1, lambda total, element: total + element, 0) + out


FORMS = {
    "yield a, b": _RegionForm(
        _two_matmuls,
        _two_matmuls_array,
        ("parallel", "parallel"),
        2,
        ("d0 s0", "s0 s1", "s1 d1", "d0 s1", "d0 d1"),
        2,
    ),
    "yield (t0@t1 + t3) * t2": _RegionForm(
        lambda t0, t1, t2, t3: (t0 @ t1 + t3) * t2,
        lambda t0, t1, t2, t3: (t0 @ t1 + t3) * t2,
        ("parallel",),
        2,
        ("d0 s0", "s0 s1", "", "d0 s1"),
    ),
    "yield t0@t1 + t2": _RegionForm(
        lambda t0, t1, t2: t0 @ t1 + t2,
        lambda t0, t1, t2: t0 @ t1 + t2,
        ("parallel", "reduction"),
        1,
        ("d0 d1", "d1 s0", "d0 s0"),
    ),
    "yield t with t[j] = index(0) + j": _RegionForm(
        _positions,
        lambda t: np.arange(t.shape[0]).astype(t.dtype),
        ("parallel",),
        0,
        ("d0",),
        dtypes=dtypes.ELEMENTS,
    ),
    "yield transpose(t0) + t1": _RegionForm(
        _transpose,
        lambda tile, out: tile.T + out,
        ("parallel", "parallel"),
        0,
        ("d1 d0", "d0 d1"),
        dtypes=_ARITHMETIC,
    ),
    "yield sum(t0, 1) + t1": _RegionForm(
        _row_sums,
        lambda tile, out: np.sum(tile, axis=1, dtype=tile.dtype) + out,
        ("parallel", "reduction"),
        0,
        ("d0 d1", "d0"),
    ),
}
_BY_REGION = {form.tile: form for form in FORMS.values()}


def _array_region(op: CustomOp) -> Callable[..., Any]:
    if op.region not in _BY_REGION:
        raise OpError(f"{op.name}: no reference; there is one for the regions of the examples")
    return _BY_REGION[op.region].array


def _evaluate(op: Op, operands: Values, change: Callable[[Any], Any]) -> dict[str, np.ndarray]:
    """The reference on changed operands."""
    assert isinstance(op, CustomOp)
    values = [change(np.asarray(operands[o.name])) for o in op.signature.arguments]
    count = len(op.inputs)
    results = reference.custom_op(_array_region(op), values[:count], values[count:])
    return {o.name: array for o, array in zip(op.signature.results, results, strict=True)}


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The results by :mod:`tvm_iree_ext.reference`: floats in float64, others as regions see them.

    Floats of 8 bits come of forms that round once.
    """
    assert isinstance(op, CustomOp)
    own = op.outputs[0].dtype
    kind = np.dtype(np.float64 if own in dtypes.FLOATS else dtypes.number_dtype(own))
    results = _evaluate(op, operands, lambda array: array.astype(kind))
    if own in dtypes.WORDS:
        results = {name: one.astype(dtypes.numpy_dtype(own)) for name, one in results.items()}
    return results


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """Exact for integers; of floats, an eps per term of what the same sums of magnitudes give."""
    assert isinstance(op, CustomOp)
    kind = op.outputs[0].dtype
    if kind not in dtypes.FLOATS:
        return dict.fromkeys(want, EXACT)
    magnitudes = _evaluate(op, operands, lambda array: np.abs(array.astype(np.float64)))
    terms = sum(max(np.shape(operands[o.name]), default=1) for o in op.signature.arguments)
    return {
        name: Tolerance(terms * dtypes.eps(kind) * float(np.max(array, initial=0.0)), 0.0)
        for name, array in magnitudes.items()
    }


def random_case(rng: Generator) -> tuple[CustomOp, dict[str, Any]]:
    """Any of the forms, extents around the tiles, dtypes and symbols."""
    form = list(FORMS.values())[rng.integers(len(FORMS))]
    names = sorted({axis for one in form.operands for axis in one.split()})
    sizes = {name: int(rng.choice([1, 3, 17, 40, 63, 64, 65, 130])) for name in names}
    if "reduction" in form.iterators:
        sizes["d1"] = int(rng.choice([1, 5, 255, 256, 257, 600]))
    # Of other extents of 0, such as a symbol's, some result is undefined.
    outs = [one.split() for one in form.operands[-form.outputs :]]
    loops = [
        f"d{dim}"
        for dim, kind in enumerate(form.iterators)
        if kind == "reduction" or all(f"d{dim}" in one for one in outs)
    ]
    sizes |= zip(loops, sometimes_empty(rng, [sizes[name] for name in loops]), strict=True)
    given: dict[str, Extent] = dict(sizes)
    if rng.random() < 0.4:
        given = {n: f"n{n}" if rng.random() < 0.5 else e for n, e in sizes.items()}
    dtype = "float32" if rng.random() < 0.3 else pick(rng, form.dtypes)
    types = [TensorType(tuple(given[a] for a in one.split()), dtype) for one in form.operands]
    count = len(types) - form.outputs
    op = ops.custom_op(
        types[:count],
        types[count:],
        indexing_maps=form.maps,
        iterator_types=form.iterators,
        region=form.tile,
    )
    operands: dict[str, Any] = {}
    for operand, one in zip(op.signature.arguments, form.operands, strict=True):
        shape = [sizes[axis] for axis in one.split()]
        value = _numbers(rng, shape, dtype)
        operands[operand.name] = value.item() if operand.role == "scalar" else value
    return op, operands


def _numbers(rng: Generator, shape: list[int], dtype: str) -> np.ndarray:
    """Numbers whose sums and products are exact, but of floats."""
    kind = dtypes.numpy_dtype(dtype)
    if dtype in dtypes.FLOATS:
        return np.asarray(rng.standard_normal(shape)).astype(kind)
    if dtype in dtypes.COMPLEX:
        return np.asarray(rng.integers(-2, 3, shape) + 1j * rng.integers(-2, 3, shape)).astype(kind)
    if dtype in dtypes.FLOATS8:
        return small_numbers(rng, tuple(shape), dtype)
    return random_array(rng, tuple(shape), dtype)


def run_example(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """A case of the dialect's examples, or one of ``index``, whose parent this op is."""
    attributes = case["attrs"]
    region = attributes["region"].split("; ")[-1]
    form = FORMS[region]
    arrays = list(case["inputs"].values())
    count = len(arrays) - form.outputs
    op = ops.custom_op(
        arrays[:count],
        arrays[count:],
        indexing_maps=attributes["indexing_maps"],
        iterator_types=attributes["iterator_types"],
        region=form.tile,
    )
    operands = dict(zip((o.name for o in op.signature.arguments), arrays, strict=True))
    for operand in op.signature.arguments:
        if operand.role == "scalar":
            operands[operand.name] = operands[operand.name].item()
    return dict(zip(case["expected"], run(op, operands).values(), strict=True))


CUSTOM_OP = OpEntry(
    name="iree_linalg_ext.custom_op",
    summary="a loop nest over tiles, whose body is a Python function over tiles",
    make=ops.custom_op,
    reference=run_reference,
    tolerance=tolerance,
    random_case=random_case,
    run_example=run_example,
)
