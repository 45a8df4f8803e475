"""Nests of loops in programs: their kernels beside NumPy."""

import numpy as np
import pytest
from relax_programs import RNG, Maker, check, normal, program
from tvm import tirx

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.programs.program_build import build_program


def nan_max(a, b):
    return tirx.Select(a > b, a, tirx.Select(b >= a, b, a + b))


def inside(index):
    return tirx.max(tirx.min(index, tirx.const(19, "int64")), tirx.const(0, "int64"))


def test_elementwise_chain_and_row_sums(tmp_path):
    m = Maker(x=((6, 37), "float32"))
    x = m["x"]

    def make(emit):
        a = emit(m.nest([x], (6, 37), "float32", lambda r, i, j: tirx.exp(r[0](i, j))))
        b = emit(m.nest([a, x], (6, 37), "float32", lambda r, i, j: r[0](i, j) * r[1](i, j)))
        s = emit(
            m.nest([b], (6,), "float32", lambda o, r, i, k: o + r[0](i, k), reduced=(37,), init=0.0)
        )
        return [emit(m.nest([b, s], (6, 37), "float32", lambda r, i, j: r[0](i, j) / r[1](i)))]

    built = build_program(program(m, make, [((6, 37), "float32")]), folder=tmp_path / "p")
    x = np.random.default_rng(0).normal(size=(6, 37)).astype("float32")
    b = np.exp(x) * x
    np.testing.assert_allclose(built(x), b / b.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 129), (40, 70, 3), (300, 1000)])
def test_maps_of_any_shape(shape, tmp_path):
    m = Maker(x=(shape, "float32"), y=(shape, "float32"))

    def make(emit):
        x, y = m.vars
        return [
            emit(
                m.nest([x, y], shape, "float32", lambda r, *i: r[0](*i) * 2.0 - tirx.tanh(r[1](*i)))
            )
        ]

    x, y = normal(*shape), normal(*shape)
    check(m, make, [(shape, "float32")], [x, y], [(x * 2 - np.tanh(y)).astype("float32")], tmp_path)


@pytest.mark.costly
@pytest.mark.parametrize("rows", [1, 5, 64, 3000])
def test_dynamic_extents(rows, tmp_path):
    m = Maker(x=(("rows", "columns"), "float32"), y=(("columns",), "float32"))

    def make(emit):
        x, y = m.vars
        a = emit(
            m.nest([x, y], ("rows", "columns"), "float32", lambda r, i, j: r[0](i, j) + r[1](j))
        )
        return [
            a,
            emit(
                m.nest(
                    [a],
                    ("rows",),
                    "float32",
                    lambda o, r, i, k: tirx.max(o, r[0](i, k)),
                    reduced=("columns",),
                    init=-np.inf,
                )
            ),
            emit(
                m.nest(
                    [a],
                    ("columns",),
                    "float32",
                    lambda o, r, j, k: o + r[0](k, j),
                    reduced=("rows",),
                    init=0.0,
                )
            ),
        ]

    x, y = normal(rows, 67), normal(67)
    a = x + y
    built = check(
        m,
        make,
        [(("rows", "columns"), "float32"), (("rows",), "float32"), (("columns",), "float32")],
        [x, y],
        [a, a.max(1), a.sum(0)],
        tmp_path,
        rtol=1e-4,
        atol=1e-4,
    )
    assert [r.shape for r in built(normal(0, 67)[:0], y)[:1]] == [(0, 67)]


def test_transposed_and_strided_and_gathered(tmp_path):
    m = Maker(x=((20, 33), "float32"), at=((9,), "int64"))

    def make(emit):
        x, at = m.vars
        t = emit(m.nest([x], (33, 20), "float32", lambda r, i, j: r[0](j, i)))
        s = emit(m.nest([x], (10, 11), "float32", lambda r, i, j: r[0](i * 2, j * 3 + 1)))
        g = emit(
            m.nest(
                [x, at],
                (9, 33),
                "float32",
                lambda r, i, j: r[0](inside(r[1](i)), j),
            )
        )
        return [t, s, g]

    x, at = normal(20, 33), np.array([0, 19, 3, -5, 99, 7, 7, 1, 2])
    check(
        m,
        make,
        [((33, 20), "float32"), ((10, 11), "float32"), ((9, 33), "float32")],
        [x, at],
        [x.T, x[::2, 1::3], x[np.clip(at, 0, 19)]],
        tmp_path,
    )


@pytest.mark.costly
@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("extent", [1, 5, 16, 47])
def test_elements_that_are_a_few_apart(step, extent, tmp_path):
    """A pooling of windows, and a copy, of every second, third or fourth element."""
    m = Maker(x=((3, extent * step), "float32"))
    n = extent

    def make(emit):
        (x,) = m.vars
        pooled = emit(
            m.nest(
                [x],
                (3, n),
                "float32",
                lambda o, r, i, j, k: nan_max(o, r[0](i, j * step + k)),
                reduced=(step,),
                init=-np.inf,
            )
        )
        return [pooled, emit(m.nest([x], (3, n), "float32", lambda r, i, j: -r[0](i, j * step)))]

    x = normal(3, n * step)
    expected = [x.reshape(3, n, step).max(2), -x[:, ::step]]
    check(m, make, [((3, n), "float32")] * 2, [x], expected, tmp_path)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool", "float64"])
@pytest.mark.parametrize("extents", [(40, 33), ("rows", "columns"), (100, "columns"), (9, 130)])
def test_transposes(extents, dtype, tmp_path):
    m = Maker(x=((3, *extents), dtype))

    def make(emit):
        shape = (extents[1], 3, extents[0])
        return [emit(m.nest(m.vars, shape, dtype, lambda r, i, b, j: r[0](b, j, i)))]

    result = ((extents[1], 3, extents[0]), dtype)
    built = build_program(program(m, make, [result]), folder=tmp_path / "p")
    static = [e for e in extents if isinstance(e, int)]
    sizes = [static] if len(static) == 2 else [(100, 70), (100, 3), (100, 1)]
    for rows, columns in sizes:
        x = (normal(3, rows, columns) * 9).astype(dtype)
        np.testing.assert_array_equal(built(x), x.transpose(2, 0, 1))


def test_padding_and_concatenation(tmp_path):
    m = Maker(x=((5, 7), "float32"), y=((3, 11), "float32"))

    def pad(r, i, j):
        inside = tirx.And(tirx.And(i >= 1, i < 6), tirx.And(j >= 2, j < 9))
        return tirx.if_then_else(inside, r[0](i - 1, j - 2), tirx.const(0.5, "float32"))

    def make(emit):
        x, y = m.vars
        e = emit(m.nest([x], (5, 7), "float32", lambda r, i, j: tirx.exp(r[0](i, j))))
        p = emit(m.nest([e], (8, 11), "float32", pad))
        c = emit(
            m.nest(
                [p, y],
                (11, 11),
                "float32",
                lambda r, i, j: tirx.if_then_else(i < 8, r[0](i, j), r[1](i - 8, j)),
            )
        )
        return [c]

    x, y = normal(5, 7), normal(3, 11)
    padded = np.pad(np.exp(x), ((1, 2), (2, 2)), constant_values=0.5)
    check(m, make, [((11, 11), "float32")], [x, y], [np.concatenate([padded, y])], tmp_path)


@pytest.mark.costly
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 64), (2, 1000), (50, 17)])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(shape, axis, tmp_path):
    m = Maker(x=(shape, "float32"), n=(shape, "int32"), b=(shape, "bool"))
    out, over = (shape[1 - axis],), (shape[axis],)

    def at(r, i, k):
        return r[0](*((k, i) if axis == 0 else (i, k)))

    def reduced(emit, v, dtype, combine, init):
        return emit(
            m.nest(
                [v], out, dtype, lambda o, r, i, k: combine(o, at(r, i, k)), reduced=over, init=init
            )
        )

    def make(emit):
        x, n, b = m.vars
        return [
            reduced(emit, x, "float32", lambda a, e: a + e, 0.0),
            reduced(emit, x, "float32", nan_max, -np.inf),
            reduced(emit, x, "float32", lambda a, e: a * e, 1.0),
            reduced(emit, n, "int32", tirx.min, 2**31 - 1),
            reduced(emit, n, "int32", lambda a, e: a + e * e, 7),
            reduced(emit, b, "bool", tirx.Or, False),
            reduced(emit, x, "float32", lambda a, e: a * tirx.const(0.5, "float32") + e, 0.0),
        ]

    x, n, b = normal(*shape), RNG.integers(-99, 99, shape, "int32"), RNG.random(shape) < 0.1
    x[0, -1] = np.nan
    horner = np.zeros(out, "float32")
    for part in np.moveaxis(x, axis, 0):
        horner = horner * np.float32(0.5) + part
    with np.errstate(all="ignore"):
        expected = [
            x.sum(axis),
            x.max(axis),
            x.prod(axis),
            n.min(axis),
            (n * n).sum(axis).astype("int32") + np.int32(7),
            b.any(axis),
            horner,
        ]
    kinds = ["float32"] * 3 + ["int32"] * 2 + ["bool", "float32"]
    check(m, make, [(out, k) for k in kinds], [x, n, b], expected, tmp_path, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("length", [40, 300])
def test_a_long_chain_that_uses_each_value_twice(length, tmp_path):
    m = Maker(x=((100,), "float32"))
    half = tirx.const(0.5, "float32")

    def body(r, i):
        return tirx.sqrt(r[0](i) * r[0](i)) * half + tirx.abs(r[0](i)) * half

    def make(emit):
        v = m["x"]
        for _ in range(length):
            v = emit(m.nest([v], (100,), "float32", body))
        return [v]

    x = normal(100)
    check(m, make, [((100,), "float32")], [x], [np.abs(x)], tmp_path, rtol=1e-3)


@pytest.mark.costly
@pytest.mark.parametrize("extents", [(4, 3), (7, 5), (9, 9)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_overlapping_vectors_of_what_is_between_stand_where_they_were_written(
    dtype, extents, tmp_path
):
    h, w = extents
    m = Maker(x=((4, h, w), dtype))

    def padded(r, c, i, j):
        inside = tirx.all(i >= 1, i <= h, j >= 1, j <= w)
        return tirx.if_then_else(inside, r[0](c, i - 1, j - 1), tirx.const(0, dtype))

    def make(emit):
        def absolute(r, c, i, j):
            value = tirx.Cast("float32", r[0](c, i, j))
            return tirx.Cast(dtype, tirx.sqrt(value * value))  # exact, and not worth repeating

        a = emit(m.nest([m["x"]], (4, h, w), dtype, absolute))
        return [emit(m.nest([a], (4, h + 2, w + 2), dtype, padded))]

    built = build_program(program(m, make, [((4, h + 2, w + 2), dtype)]), folder=tmp_path / "p")
    x = normal(4, h, w).astype(numpy_dtype(dtype))
    np.testing.assert_array_equal(built(x), np.pad(abs(x), ((0, 0), (1, 1), (1, 1))))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "float32"])
def test_a_branch_binds_vectors_that_are_computed_of_comparisons(dtype, tmp_path):
    """TVM has no interval for what is bound, and asks for it."""
    m = Maker(x=((2, 1, 8), "int8"), y=((2, 1, 8), "int8"))

    def compared(r, i, j, k):
        both = tirx.all(r[0](i, j, k) > r[1](i, j, k), r[1](i, j, k) > tirx.const(0, "int8"))
        return both if dtype == "bool" else tirx.Cast(dtype, both) + tirx.const(1, dtype)

    def joined(r, i, j, k):
        first = r[0](i, 0, k)
        return tirx.if_then_else(j < 1, first, tirx.if_then_else(j < 2, first, r[1](i, 0, k)))

    def make(emit):
        c = emit(m.nest(list(m.vars), (2, 1, 8), dtype, compared))
        d = emit(
            m.nest([m["x"]], (2, 1, 8), dtype, lambda r, i, j, k: tirx.Cast(dtype, r[0](i, j, k)))
        )
        return [emit(m.nest([c, d], (2, 3, 8), dtype, joined))]

    rng = np.random.default_rng(1)
    x, y = (rng.integers(-1, 3, (2, 1, 8)).astype("int8") for _ in range(2))
    both = (x > y) & (y > 0)
    first = both if dtype == "bool" else (both + 1).astype(dtype)
    expected = np.concatenate([first, first, x.astype(dtype)], 1)
    check(m, make, [((2, 3, 8), dtype)], [x, y], [expected], tmp_path)


def test_functions_of_vectors_that_are_computed_of_comparisons(tmp_path):
    """Their argument is bound: it is taken several times."""
    m = Maker(x=((4, 16), "float32"), y=((4, 16), "float32"))

    def chance(r, i, j):
        return tirx.sigmoid(tirx.Cast("float32", r[0](i, j) > r[1](i, j)))

    def make(emit):
        return [emit(m.nest(list(m.vars), (4, 16), "float32", chance))]

    x, y = normal(4, 16), normal(4, 16)
    expected = (1 / (1 + np.exp(-(x > y).astype("float64")))).astype("float32")
    check(m, make, [((4, 16), "float32")], [x, y], [expected], tmp_path)
