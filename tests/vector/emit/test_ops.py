"""Each op computes the same compiled as it means: over shapes, dtypes, masks, offsets, bounds."""

import platform

import numpy as np
import pytest
from tvm.target import codegen

from tvm_iree_ext import vector
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.vector import AffineMap
from tvm_iree_ext.vector.emit import function
from tvm_iree_ext.vector.ir.combining_kinds import kinds_of
from tvm_iree_ext.vector.ir.definition import DEFINITIONS
from tvm_iree_ext.vector.ops import elementwise

FLOATS = ("float16", "bfloat16", "float32", "float64")
WIDE = ("int8", "int16", "int32", "int64")
INTEGERS = ("bool", *WIDE)
EVERY = (*FLOATS, *INTEGERS)
SHAPES = ((4,), (8,), (3,), (1,), (2, 3), (3, 1, 4), ())


class Draw:
    """Random arrays; of floats some are special."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __getattr__(self, name):
        return getattr(self.rng, name)

    def array(self, shape, dtype, special=False):
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        kind = numpy_dtype(dtype)
        if dtype in INTEGERS:
            limits = np.iinfo(kind)
            if special:
                return self.rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
            return self.rng.integers(-4, 5, shape).astype(kind)
        values = np.asarray(self.rng.standard_normal(shape))
        if special:
            values = np.where(
                self.rng.random(shape) < 0.3,
                self.rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 65504.0], shape),
                values,
            )
        return values.astype(kind)

    def choose(self, options):
        return options[int(self.rng.integers(len(options)))]


def one(build, **arrays):
    """A program of one op, with its inputs: memory where a name begins with T or M."""
    with vector.program("one") as b:
        values = {}
        for name, array in arrays.items():
            dtype = str(array.dtype)
            kind = {"T": vector.tensor, "M": vector.buffer}.get(name[0], vector.vector)
            is_scalar = name[0] == "s"
            values[name] = b.argument(name, dtype if is_scalar else kind(array.shape, dtype))
        made = build(b, **values)
        b.returns(*(made if isinstance(made, list) else [made] if made is not None else []))
    return b.program, arrays


def test_every_op_can_be_compiled():
    terminators = {name for name, one in DEFINITIONS.items() if one.is_terminator}
    assert set(function.EMIT) == set(DEFINITIONS) - terminators


def each(names):
    """Builds an op of each name on the same operands."""
    return lambda b, **v: [b.elementwise(name, *v.values()) for name in names]


@pytest.mark.parametrize("dtype", WIDE)
def test_sums_wrap_where_a_condition_asks_for_them(agree, dtype):
    """A scalar below a number leads LLVM to what it knows of the sum that is asked for next."""
    limits = np.iinfo(dtype)

    def build(b, x, s):
        total = b.constant(0, s.type)
        for name, by in (("addi", 1), ("addi", 2), ("subi", 2), ("muli", 3)):
            changed = b.elementwise(name, s, b.constant(by, s.type))
            for predicate in ("ult", "slt"):
                is_below = b.compare(predicate, changed, b.constant(4, s.type))
                total = b.if_(is_below, lambda t=total: t * 2 + 1, lambda t=total: t * 2)[0]
        return b.splat(total, x.shape)

    x = np.zeros(2, dtype)
    program, _ = one(build, x=x, s=np.array(0, dtype))
    numbers = [limits.min, limits.min + 1, -2, -1, 0, 1, limits.max - 1, limits.max]
    agree([(program, {"x": x, "s": np.array(s, dtype)}) for s in numbers])


def test_arithmetic(agree):
    draw, pairs = Draw(1), []
    for dtype in EVERY:
        names = elementwise.FLOAT_BINARY if dtype in FLOATS else elementwise.INTEGER_BINARY
        for shape in ((8,), draw.choose(SHAPES)):
            a, c = (draw.array(shape, dtype, special=True) for _ in range(2))
            pairs.append(one(each(names), a=a, c=c))
    agree(pairs)


def test_division_and_shifts(agree):
    draw, pairs = Draw(2), []
    for dtype in WIDE:
        a = draw.array((8,), dtype, special=True)
        distance = draw.integers(0, a.dtype.itemsize * 8, 8).astype(dtype)
        divisor = (draw.integers(1, 7, 8) * draw.choose([-1, 1])).astype(dtype)
        shifts = [name for name in elementwise.WIDE_BINARY if "sh" in name]
        divisions = [name for name in elementwise.WIDE_BINARY if "sh" not in name]
        pairs.append(one(each(shifts), a=a, c=distance))
        pairs.append(one(each(divisions), a=a, c=divisor))
        pairs.append(one(each(divisions), a=a, c=np.abs(divisor)))
    agree(pairs)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions(agree, dtype):
    positive = ("math.log", "math.sqrt", "math.rsqrt")
    others = [name for name in elementwise.UNARY if name not in positive]
    a = Draw(3).array((5,), dtype)
    above = np.abs(a) + np.ones((), a.dtype)
    agree([one(each(others), a=a), one(each(positive), a=above)], ulps=8)


def test_exact_functions_of_special_values(agree):
    draw, names = Draw(4), ("arith.negf", "math.absf", "math.ceil", "math.floor")
    agree([one(each(names), a=draw.array((8,), t, special=True)) for t in FLOATS])


@pytest.mark.costly
@pytest.mark.parametrize("dtype", EVERY)
def test_comparisons_and_selects(agree, dtype):
    draw, is_float = Draw(5), dtype in FLOATS
    known = elementwise.FLOAT_PREDICATES if is_float else elementwise.INTEGER_PREDICATES
    a, c = (draw.array((8,), dtype, special=True) for _ in range(2))
    c = np.where(draw.random(8) < 0.3, a, c)

    def build(b, a, c):
        found = [b.compare(predicate, a, c) for predicate in known]
        found += [b.compare(predicate, a, a) for predicate in known]
        return [*found, b.select(found[0], a, c), b.select(found[1][3], a, c)]

    agree([one(build, a=a, c=c)])


@pytest.mark.costly
@pytest.mark.parametrize("came", EVERY)
def test_casts(agree, came):
    draw = Draw(6)
    to_floats, to_integers = ([one for one in kinds if one != came] for kinds in (FLOATS, INTEGERS))
    a = draw.array((8,), came)
    if came in FLOATS:
        whole = np.abs(np.round(a.astype(np.float64) * 8)).astype(a.dtype)
    else:
        whole = draw.array((8,), came, special=True)
        to_integers.append("index")

    def floats(b, a):
        return [b.convert(a, t, unsigned=u) for t in to_floats for u in (False, True)]

    def integers(b, a):
        return [
            b.convert(b.convert(a, t, unsigned=u), "i32")
            for t in to_integers
            for u in (False, True)
        ]

    agree([one(floats, a=a), one(integers, a=whole)])


def test_narrowing_rounds_once(agree):
    """Numbers beside the middle between two of the narrower type."""
    middle = 1 + 2.0**-11
    a = np.array([middle, middle + 2.0**-40, middle - 2.0**-40, 1 + 2.0**-8 + 2.0**-50])
    pairs = [
        one(lambda b, a, to=to: b.convert(a, to), a=np.concatenate([a, -a, a * 1e-6, a * 1e300]))
        for to in ("f16", "bf16", "f32")
    ]
    agree(pairs)


def test_bits(agree):
    draw = Draw(7)
    same = [("float16", "i16"), ("bfloat16", "i16"), ("float32", "i32"), ("float64", "i64"),
            ("int16", "f16"), ("int16", "bf16"), ("int32", "f32"), ("int64", "f64"),
            ("float16", "bf16")]  # fmt: skip
    agree([
        one(lambda b, a, to=to: b.elementwise("bitcast", a, dtype=to), a=draw.array((4,), came))
        for came, to in same
    ])  # fmt: skip


def test_transfers(agree):
    draw, pairs = Draw(10), []
    for dtype in (*EVERY, "float32", "float32"):
        rank = int(draw.integers(1, 4))
        shape = tuple(int(e) for e in draw.integers(1, 9, rank))
        dims = [int(d) for d in draw.permutation(rank)[: draw.integers(0, rank + 1)]]
        if draw.random() < 0.5:
            dims = sorted(dims)
        read_dims = list(dims)
        if draw.random() < 0.3:
            read_dims.insert(int(draw.integers(len(dims) + 1)), None)
        indices = [int(draw.integers(shape[k] + (k in dims))) for k in range(rank)]
        is_masked, is_dynamic = draw.random(2) < 0.5
        memory = draw.array(shape, dtype)
        for is_write, using in ((False, read_dims), (True, dims)):
            map = AffineMap.of(rank, using)
            extents = tuple(int(e) for e in draw.choose([(1, 2, 3, 4), (4, 8, 5, 2)]))[: len(using)]
            in_bounds = [
                d is None or (indices[d] + e <= shape[d] and draw.random() < 0.7)
                for d, e in zip(using, extents, strict=True)
            ]
            mask_shape = [extents[using.index(d)] for d in range(rank) if d in using]
            arrays = {"T": memory, "M": memory, "v": draw.array(extents, dtype)}
            if is_masked:
                arrays["mask"] = draw.array(mask_shape, "bool")
            if is_dynamic:
                arrays |= {f"s{k}": np.int64(i) for k, i in enumerate(indices)}
            common = {"permutation_map": map, "in_bounds": in_bounds}

            def build(b, T, M, v, mask=None, *, w=is_write, e=extents, c=common, **at):
                at = list(at.values()) or indices  # noqa: B023
                if w:
                    b.transfer_write(v, M, at, mask=mask, **c)
                    return b.transfer_write(v, T, at, mask=mask, **c)
                zero = b.constant(1, T.dtype) if T.dtype == "bool" else b.element(1, T.dtype)
                read = [b.transfer_read(m, at, e, padding=zero, mask=mask, **c) for m in (T, M)]
                return b.select(b.constant(True, "i1"), *read)

            def typed(b, build=build, **values):
                return build(b, **values)

            with vector.program("transfer") as b:
                values = {}
                for name, array in arrays.items():
                    kind = {"T": vector.tensor, "M": vector.buffer}.get(name, vector.vector)
                    type = "index" if name[0] == "s" else kind(array.shape, str(array.dtype))
                    values[name] = b.argument(name, type)
                made = typed(b, **values)
                b.returns(*([] if made is None else [made]))
            pairs.append((b.program, arrays))
    agree(pairs)


def test_loads_and_stores(agree):
    draw, pairs = Draw(20), []
    for number, (shape, at, extents) in enumerate(
        [
            ((9,), [2], (4,)),
            ((4, 8), [1, 3], (5,)),
            ((4, 8), [1, 3], (2, 3)),
            ((3, 4, 5), [1, 0, 1], (2, 2)),
            ((3, 4, 5), [1, 2, 1], (4,)),
            ((6,), [5], (1,)),
            ((2, 3), [1, 2], ()),
        ]
        * 2
    ):
        dtype = EVERY[number % len(EVERY)]
        memory, v = draw.array(shape, dtype), draw.array(extents, dtype)
        mask = draw.array(extents, "bool")

        def build(b, M, v, mask, *, at=at, e=extents):
            loaded = [b.load(M, at, e), b.maskedload(M, at, mask, v)]
            b.maskedstore(v, M, at, mask)
            loaded.append(b.load(M, at, e))
            b.store(v, M, at)
            return loaded

        pairs.append(one(build, M=memory, v=v, mask=mask))
    agree(pairs)


def test_lanes_that_are_masked_off_may_lie_outside(agree):
    draw, pairs = Draw(28), []
    for dtype in EVERY:

        def build(b, M, v, mask):
            loaded = b.maskedload(M, [4], mask, v)
            b.maskedstore(v, M, [4], mask)
            return loaded

        memory, v = draw.array((6,), dtype), draw.array((4,), dtype)
        pairs.append(one(build, M=memory, v=v, mask=np.array([True, True, False, False])))
    agree(pairs)


def test_gather_and_scatter(agree):
    draw, pairs = Draw(21), []
    places = [((16,), [3], (4,), "int32"), ((4, 5), [1, 1], (2, 3), "int64"),
              ((2, 3, 4), [0, 1, 1], (5,), "int8")]  # fmt: skip
    for number, dtype in enumerate((*EVERY, *EVERY[:3])):
        shape, offsets, lanes, index = places[number % 3]
        room = int(np.prod(shape)) - int(np.ravel_multi_index(offsets, shape))
        arrays = {
            "M": draw.array(shape, dtype),
            "i": draw.integers(0, room, lanes).astype(index),
            "mask": draw.array(lanes, "bool"),
            "v": draw.array(lanes, dtype),
        }
        arrays["i"] = np.where(draw.random(lanes) < 0.4, 2, arrays["i"]).astype(index)  # twice
        arrays["i"][~arrays["mask"]] = 100  # not touched

        def build(b, M, i, mask, v, offsets=offsets):
            gathered = b.gather(M, offsets, i, mask, v)
            b.scatter(M, offsets, i, mask, v)
            return gathered

        pairs.append(one(build, **arrays))
    agree(pairs)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", EVERY)
def test_ops_that_move_elements(agree, dtype):
    draw = Draw(22)
    shapes = {"a": (3, 4), "c": (2, 4), "cube": (2, 3, 4), "row": (4,), "unit": (2, 1), "z": ()}

    def build(b, a, c, cube, row, unit, z):
        return [
            b.transpose(a, [1, 0]),
            b.transpose(cube, [2, 0, 1]),
            b.transpose(cube, [0, 2, 1]),
            b.broadcast(row, (3, 4)),
            b.broadcast(unit, (3, 2, 4)),
            b.shape_cast(a, (4, 3)),
            b.shape_cast(b.transpose(a, [1, 0]), (2, 6)),
            b.shape_cast(cube, (2, 3, 2, 2)),
            b.shuffle(a, c, [4, 0, 3, 3, 1]),
            b.shuffle(row, c[0], [0, 4, 1, 5]),
            b.shuffle(row, b.extract_strided_slice(row, [1], [3]), [6, 0, 3]),
            b.shuffle(row, row, [7, 6, 5, 4, 3, 2, 1, 0]),
            b.extract_strided_slice(a, [1, 1], [2, 2]),
            b.extract_strided_slice(a, [1], [2]),
            b.insert_strided_slice(c, cube, [0, 1, 0]),
            b.insert_strided_slice(b.extract_strided_slice(row, [0], [2]), a, [1, 1]),
            cube[1],
            cube[1, 2],
            cube[1, 2, 3],
            b.insert_at(a, cube, [1]),
            b.insert_at(row[3], cube, [1, 2, 3]),
            b.splat(row[3], (2, 3)),
            b.insertelement(b.extractelement(z), row, 1),
            b.insertelement(row[1], z),
        ]

    arrays = {name: draw.array(shape, dtype) for name, shape in shapes.items()}
    with vector.program("lanes") as b:
        v, at = b.argument("v", vector.vector((4,), dtype)), b.argument("at", "index")
        b.returns(b.insertelement(v[0], v, at), b.extractelement(v, at), b.insert_at(v[1], v, at))
    agree([one(build, **arrays), (b.program, {"v": arrays["row"], "at": np.int64(2)})])


def test_reshape_of_padded_blocks(compiled):
    program, inputs = one(
        lambda b, a: b.reshape(a, [3, 6], [2, 9], [4]),
        a=np.arange(24, dtype=np.float32).reshape(3, 2, 4),
    )
    (got,) = compiled([(program, inputs)])
    valid = [r * 8 + i for r in range(3) for i in range(6)]
    lanes = got["result"].reshape(2, 12)[:, :9]
    assert lanes.ravel().tolist() == valid


@pytest.mark.costly
@pytest.mark.parametrize("dtype", EVERY)
def test_reductions_of_every_kind(agree, dtype):
    draw, pairs = Draw(23), []
    for is_exact in (True, False):
        exact = [k for k in kinds_of(dtype) if (dtype in INTEGERS or k[:3] in ("min", "max"))]
        kinds = [k for k in kinds_of(dtype) if (k in exact) == is_exact]
        arrays = {
            "a": draw.array((3, 2, 4), dtype, special=is_exact),
            "inner": draw.array((3, 4), dtype, special=is_exact),
            "outer": draw.array((2,), dtype, special=is_exact),
            "v7": draw.array((7,), dtype, special=is_exact),
        }

        def build(b, a, inner, outer, v7, kinds=kinds):
            found = []
            for kind in kinds:
                eight = b.shape_cast(b.extract_strided_slice(a, [1], [1]), (8,))
                found += [
                    b.multi_reduction(a, inner, [1], kind=kind),
                    b.multi_reduction(a, outer, [0, 2], kind=kind),
                    b.multi_reduction(a, outer[0], [2, 1, 0], kind=kind),
                    b.reduction(v7, kind=kind),
                    b.reduction(eight, v7[2], kind=kind),
                    b.reduction(b.extract_strided_slice(v7, [1], [1]), kind=kind),
                ]
            return found

        if kinds:
            pairs.append(one(build, **arrays))
    agree(pairs, ulps=0 if dtype in INTEGERS else 16)


MATMULS = {
    "plain": ("(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"),
    "rhs transposed": ("(m, n, k) -> (m, k)", "(m, n, k) -> (n, k)", "(m, n, k) -> (m, n)"),
    "result transposed": ("(m, n, k) -> (k, m)", "(m, n, k) -> (k, n)", "(m, n, k) -> (n, m)"),
}


@pytest.mark.costly
@pytest.mark.parametrize("dtype", EVERY)
def test_contractions(agree, dtype):
    draw = Draw(24)
    m, n, k = 3, 4, 2
    shapes = {"mk": (m, k), "km": (k, m), "kn": (k, n), "nk": (n, k), "mn": (m, n), "nm": (n, m)}
    iterators = ["parallel", "parallel", "reduction"]

    def build(b, **v):
        found = []
        for kind in kinds_of(dtype)[:3]:
            for maps in MATMULS.values():
                operands = (v["".join("mnk"[d] for d in AffineMap.parse(map).used)] for map in maps)
                found.append(
                    b.contract(*operands, indexing_maps=maps, iterator_types=iterators, kind=kind)
                )
        dot = ["(k) -> (k)", "(k) -> (k)", "(k) -> ()"]
        row, start = v["mn"][1], v["mn"][0, 0]
        return [
            *found,
            b.contract(row, row, start, indexing_maps=dot, iterator_types=["reduction"]),
        ]

    arrays = {name: draw.array(shape, dtype) for name, shape in shapes.items()}
    agree([one(build, **arrays)], ulps=0 if dtype in INTEGERS else 16)


@pytest.mark.parametrize(
    ("came", "to"),
    [("float16", "float32"), ("bfloat16", "float32"), ("float32", "float64"), ("int8", "int32")],
)
def test_contractions_into_a_wider_sum(agree, came, to):
    draw = Draw(25)
    arrays = {"a": draw.array((3, 4), came), "c": draw.array((4, 5), came)}
    arrays["acc"] = draw.array((3, 5), to)
    iterators = ["parallel", "parallel", "reduction"]
    pair = one(
        lambda b, **v: b.contract(
            *v.values(), indexing_maps=MATMULS["plain"], iterator_types=iterators
        ),
        **arrays,
    )
    agree([pair], ulps=16)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", EVERY)
def test_outer_products_and_fma(agree, dtype):
    draw = Draw(26)
    arrays = {name: draw.array(s, dtype) for name, s in zip("xyz", ((3,), (4,), (3, 4)), strict=1)}

    def build(b, x, y, z):
        found = [b.outerproduct(x, y, z, kind=kind) for kind in kinds_of(dtype)]
        found += [b.outerproduct(x, y), b.outerproduct(x, y[1]), b.outerproduct(y, x[0], z[2])]
        return [*found, b.fma(z, z, z)] if dtype in FLOATS else found

    agree([one(build, **arrays)], ulps=0 if dtype in INTEGERS else 2)


@pytest.mark.skipif(
    platform.machine() == "x86_64"
    and not codegen.llvm_cpu_has_features("fma", make_target("llvm")),
    reason="this processor has no fma: products and sums are rounded each",
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fma_rounds_once(agree, dtype):
    """The product's low half is not lost: ``a * b - round(a * b)`` is its error."""
    draw = Draw(27)
    x, y = (draw.array((16,), dtype) for _ in range(2))
    agree([one(lambda b, x, y, z: b.fma(x, y, z), x=x, y=y, z=-(x * y))])


def test_constants_of_every_kind(agree):
    pairs = []
    for dtype in EVERY:
        kind = numpy_dtype(dtype)
        for values in ([1, 1, 1, 1], [0, 1, 2, 3], [1, 0, 0, 1]):
            array = np.array(values).astype(kind)
            pairs.append(
                one(
                    lambda b, v, a=array: b.select(
                        b.constant([True, False, True, True], vector.vector((4,), "i1")),
                        b.constant(a, v.type),
                        v,
                    ),
                    v=array[::-1].copy(),
                )
            )
        if dtype in FLOATS:
            special = np.array([np.nan, np.inf, -np.inf, -0.0]).astype(kind)
            for array in (special, special[:1], special[2:3]):
                pairs.append(
                    one(
                        lambda b, v, a=array: b.elementwise(
                            "addf", b.constant(a, vector.vector(a.shape, str(a.dtype))), v
                        ),
                        v=np.zeros(array.shape, kind),
                    )
                )
    agree(pairs)
