"""Random exp_reduction ops and operands: any maps, regions and types; hard shapes and scores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.catalog.base.random_arrays import pick
from tvm_iree_ext.ops.base.maps import map_text
from tvm_iree_ext.ops.families.exp_reduction.exp_reduction import ExpReduction

Generator = np.random.Generator

# 1, primes, and one below and above the tiles that schedules like.
_KEYS = (1, 2, 3, 5, 15, 16, 17, 31, 63, 64, 65, 97, 127, 128, 129, 200, 260)
_ROWS = (1, 2, 3, 5, 6, 7, 13, 16, 17, 47, 48, 49, 50)
_COLUMNS = (1, 3, 7, 8, 16, 17, 32, 40, 64, 65, 70)
_LONGEST = 1200  # now and then, for the seams between tiles
_DTYPES = ("float32", "float32", "float32", "float16", "bfloat16", "float64")


@dataclass(frozen=True)
class _AccumulatorForm:
    """An accumulator: the roles of its own axes, of its input's, and what the region yields.

    In the text p is the weight, x the input, a the accumulator; ``numbers`` are those of a call
    that it takes, with their types.
    """

    own: str
    operand: str
    text: str
    rescaled: bool = True
    dtype: str = ""
    operand_dtype: str = ""
    numbers: Mapping[str, str] = field(default_factory=dict)


_FORMS = (
    _AccumulatorForm("bm", "", "p + a"),
    _AccumulatorForm("bm", "", "p + a"),
    _AccumulatorForm("bmn", "bkn", "p * x + a"),
    _AccumulatorForm("bmn", "bkn", "p * x + a"),
    _AccumulatorForm("bmn", "bkn", "a - x * p * 2"),
    _AccumulatorForm("bmn", "bkn", "max(p * x, a)"),
    _AccumulatorForm("bmn", "bkn", "a + p * tanh(x)"),
    _AccumulatorForm("bmn", "bmkn", "a + p * x"),
    _AccumulatorForm("bmn", "bkn", "a * 0.5 + p * x"),
    _AccumulatorForm("bmn", "bkn", "p * p * x + a"),
    _AccumulatorForm("bmn", "bkn", "p * x + a", rescaled=False),
    _AccumulatorForm("bmn", "kn", "p * x + a", operand_dtype="int8"),
    _AccumulatorForm("bmn", "bmn", "p * x + a"),
    _AccumulatorForm("bm", "bmk", "p * x + a"),
    _AccumulatorForm("bm", "bk", "a + abs(x) * p"),
    _AccumulatorForm("bm", "mk", "max(a, p * x)"),
    _AccumulatorForm("bm", "k", "a - a * 0.25 + p"),
    _AccumulatorForm("bm", "bmk", "a + select(x, p, 0)", operand_dtype="bool"),
    _AccumulatorForm("bm", "k", "a + p * p"),
    _AccumulatorForm("bm", "", "a"),
    _AccumulatorForm("bm", "bkl", "a + p * x"),
    _AccumulatorForm("bn", "bkn", "a + x", rescaled=False),
    _AccumulatorForm("bn", "bkn", "max(a, x)", rescaled=False),
    _AccumulatorForm("bmn", "bkn", "a + x"),
    _AccumulatorForm("n", "kln", "x + a", rescaled=False, dtype="int32", operand_dtype="int16"),
    _AccumulatorForm("", "k", "x - a", rescaled=False, dtype="int64", operand_dtype="uint8"),
)
_NUMBERED = (
    _AccumulatorForm("bm", "", "p * weight + a", numbers={"weight": "float32"}),
    _AccumulatorForm("bmn", "bkn", "p * (x + bias) + a", numbers={"bias": "float16"}),
    _AccumulatorForm("bm", "bk", "a + select(keep, x * p, p)", numbers={"keep": "bool"}),
    _AccumulatorForm("bn", "bkn", "a + x * times", rescaled=False, numbers={"times": "int32"}),
)
_NUMBERS = {"weight": 0.5, "bias": -0.25, "keep": False, "times": 3}
_ROUNDED = _AccumulatorForm("bmn", "bkn", "rounded")


def random_case(rng: Generator) -> tuple[ExpReduction, dict[str, Any]]:
    """An op and operands that fit it; some extents of the op are symbols."""
    forms = [pick(rng, _FORMS) for _ in range(int(rng.choice([0, 1, 2, 2, 3])))]
    if rng.random() < 0.1:
        forms = [_ROUNDED]
    elif rng.random() < 0.1:
        forms = [*forms[:2], pick(rng, _NUMBERED)]
    roles, extents, sizes = _dims(rng, forms)

    def operand(letters: str, dtype: str) -> tuple[str, TensorType]:
        dims = [dim for dim, role in enumerate(roles) if role in letters]
        if rng.random() < 0.3:
            rng.shuffle(dims)
        return map_text(len(roles), dims), TensorType(tuple(extents[d] for d in dims), dtype)

    usual = pick(rng, _DTYPES)
    mixed = rng.random() < 0.2

    def dtype_of(given: str) -> str:
        return given or (pick(rng, _DTYPES) if mixed else usual)

    inputs = [operand("bmk", dtype_of(""))]
    places: list[int] = []
    for form in forms:
        places.append(len(inputs))
        if form.operand:
            inputs.append(operand(form.operand, dtype_of(form.operand_dtype)))
    wide = "float64" if usual == "float64" else "float32"
    outputs = [operand("bm", dtype_of("") if mixed else wide)]
    outputs += [operand(f.own, f.dtype or (dtype_of("") if mixed else wide)) for f in forms]
    texts = [f"arg{len(inputs)}"]
    for j, (form, place) in enumerate(zip(forms, places, strict=True), 1):
        names = {"p": "arg0", "x": f"arg{place}", "a": f"arg{len(inputs) + j}"}
        texts.append(_renamed(form.text, names))
    region: Any = texts if rng.random() < 0.5 else ", ".join(texts)
    numbers: dict[str, Any] = {}
    if any(form.numbers for form in forms):
        kinds = {name: kind for form in forms for name, kind in form.numbers.items()}
        region = ops.region(", ".join(texts), **kinds)
        numbers = {name: _NUMBERS[name] for name in kinds}
    if forms == [_ROUNDED]:
        region = _rounding(pick(rng, ("float16", "bfloat16")))
    op = ops.exp_reduction(
        [kind for _, kind in inputs],
        [kind for _, kind in outputs],
        indexing_maps=[text for text, _ in (*inputs, *outputs)],
        iterator_types=["reduction" if role in "kl" else "parallel" for role in roles],
        exp_reduced_operands=[j for j, form in enumerate(forms, 1) if form.rescaled],
        region=region,
        score_domain=pick(rng, ("log2", "log2", "natural")),
    )
    operands: dict[str, Any] = {}
    for one in op.signature.arguments:
        if one.role == "scalar":
            operands[one.name] = numbers[one.name]
            continue
        shape = tuple(sizes[e] if isinstance(e, str) else e for e in one.shape)
        operands[one.name] = _values(rng, one.name, shape, one.dtype)
    return op, operands


def _rounding(dtype: str) -> Callable[..., Any]:
    """Weights rounded before the product, as matrix units want them."""

    def region(p: Any, x: Any, m: Any, a: Any) -> tuple[Any, Any]:
        wide = str(p.ty.dtype)
        return m, p.astype("float32").astype(dtype).astype("float32").astype(wide) * x + a

    return region


def _renamed(text: str, names: dict[str, str]) -> str:
    words = text.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
    return " ".join(names.get(word, word) for word in words)


def _dims(
    rng: Generator, forms: list[_AccumulatorForm]
) -> tuple[list[str], list[Extent], dict[str, int]]:
    """The role of each dim, its extent in the op, and the numbers for the names among them."""
    used = "bmk" + "".join(form.own + form.operand for form in forms)
    roles = ["b"] * int(rng.integers(0, 3)) + ["m"] * int(rng.choice([0, 1, 1, 1, 2]))
    roles += ["k"] * int(rng.choice([0, 1, 1, 1, 1, 1, 2]))
    for role in "nl":
        if role in used:
            roles += [role] * (2 if rng.random() < 0.15 else 1)
    roles = roles or ["k"]
    if rng.random() < 0.3:
        rng.shuffle(roles)
    choices = {"b": (1, 2, 3), "m": _ROWS, "k": _KEYS, "n": _COLUMNS, "l": (1, 2, 5)}
    numbers = []
    for role in roles:
        several = roles.count(role) > 1
        numbers.append(int(rng.integers(1, 6)) if several else int(pick(rng, choices[role])))
    if rng.random() < 0.1 and "k" in roles:
        numbers[roles.index("k")] = int(rng.integers(1, _LONGEST))
    # Of other extents of 0 some result would be undefined.
    may_be_0 = [
        dim
        for dim, role in enumerate(roles)
        if role in "kl" or (role in "bm" and all(role in form.own for form in forms))
    ]
    if may_be_0 and rng.random() < 0.06:
        numbers[pick(rng, may_be_0)] = 0
    symbolic = rng.random() < 0.3
    extents: list[Extent] = []
    sizes: dict[str, int] = {}
    for dim, number in enumerate(numbers):
        name = f"size{dim}"
        extents.append(name if symbolic and rng.random() < 0.5 else number)
        sizes[name] = number
    return roles, extents, sizes


def _values(rng: Generator, name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = dtypes.numpy_dtype(dtype)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.7)
    if dtype not in dtypes.FLOATS:
        low = 0 if dtype.startswith("u") else -20
        return np.asarray(rng.integers(low, 20, shape)).astype(kind)
    values = np.asarray(rng.standard_normal(shape))
    if name == "input0":
        values = values * pick(rng, (1.0, 1.0, 30.0))
        if rng.random() < 0.3:
            values = np.where(rng.random(shape) < pick(rng, (0.2, 0.9)), -np.inf, values)
        if rng.random() < 0.1 and values.size:
            values.flat[rng.integers(values.size)] = pick(rng, (np.nan, np.inf))
    if name == "init0":
        fresh = -np.inf if rng.random() < 0.5 else float(ml_dtypes.finfo(kind).min)
        values = np.where(rng.random(shape) < 0.5, values, fresh)
        if rng.random() < 0.1 and values.size:
            values.flat[rng.integers(values.size)] = pick(rng, (np.nan, np.inf))
    return np.asarray(values).astype(kind)
