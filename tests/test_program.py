"""Programs made by hand: built, exported, loaded, called; their kernels beside NumPy."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from tvm import ir, relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.errors import ArtifactError, BuildError, CallError
from tvm_iree_ext.mlir.imported import OP_ATTRIBUTE, EntryPoint, Imported
from tvm_iree_ext.program import load
from tvm_iree_ext.program_builder import build_program
from tvm_iree_ext.program_relax import from_relax
from tvm_iree_ext.signature import Operand, Signature
from tvm_iree_ext.simulated_program import simulate_program


class Maker:
    """A Relax function of one dataflow block, whose calls are nests given by a callable."""

    def __init__(self, **inputs: tuple[Sequence, str]) -> None:
        self.builder = relax.BlockBuilder()
        self.symbols: dict[str, tirx.Var] = {}
        self.inputs = inputs
        self.ops: dict[str, object] = {}
        self.parameters: dict[str, np.ndarray] = {}
        self.vars = [relax.Var(n, self._type(*t)) for n, t in inputs.items()]
        self.extra: list[relax.Var] = []
        self.count = 0

    def __getitem__(self, name):
        return next(v for v in [*self.vars, *self.extra] if v.name == name)

    def shape(self, shape):
        return [
            self.symbols.setdefault(e, tirx.Var(e, "int64")) if isinstance(e, str) else e
            for e in shape
        ]

    def _type(self, shape, dtype):
        return relax.TensorType(self.shape(shape), dtype)

    def parameter(self, name, array):
        self.parameters[name] = array
        self.extra.append(relax.Var(name, self._type(array.shape, str(array.dtype))))
        return self.extra[-1]

    def nest(self, arguments, shape, dtype, body: Callable, reduced=(), init=None):
        """``body(load, at)`` is stored at ``at``; ``load[i](...)`` reads argument i."""
        self.count += 1
        name = f"nest{self.count}"
        own: dict[str, tirx.Var] = {}

        def extents(of):
            return [
                tirx.const(int(e), "int64")
                if isinstance(e, int | tirx.IntImm)
                else own.setdefault(str(e), tirx.Var(str(e), "int64"))
                for e in of
            ]

        def declared(called, shape, kind):
            buffer = I.buffer(extents(shape), kind, align=item_bytes(kind))
            return I.arg(called, buffer)

        with IRBuilder() as builder, I.prim_func(s_tir=True):
            I.func_name(name)
            I.func_attr({"tirx.noalias": True})
            buffers = [
                declared(f"a{place}", argument.ty.shape.values, str(argument.ty.dtype))
                for place, argument in enumerate(arguments)
            ]
            out = declared("out", self.shape(shape), dtype)
            spatial, rest = extents(self.shape(shape)), extents(self.shape(reduced))
            loops = [*spatial, *rest] or [tirx.const(1, "int64")]
            with I.sblock("root"), I.grid(*loops) as found:
                variables = [found] if isinstance(found, ir.Var) else list(found)
                with I.sblock(name):
                    kinds = [I.axis.spatial] * len(spatial) + [I.axis.reduce] * len(rest)
                    axes = [
                        axis(extent, variable)
                        for axis, extent, variable in zip(
                            kinds or [I.axis.spatial], loops, variables, strict=True
                        )
                    ]
                    at, over = axes[: len(spatial)], axes[len(spatial) :]
                    loads = [lambda *i, b=b: b[tuple(i)] for b in buffers]
                    if reduced:
                        with I.init():
                            I.buffer_store(out, tirx.const(init, dtype), at)
                        loads, over = (out[tuple(at)], loads), over
                        I.buffer_store(out, body(*loads, *at, *over), at)
                    else:
                        I.buffer_store(out, body(loads, *at), at)
        func = builder.get()
        return self._call(func, name, arguments, shape, dtype)

    def op(self, key, op, arguments, shape, dtype):
        """A call of an op's canonical PrimFunc."""
        self.ops[key] = op
        func = op.prim_func().without_attr("global_symbol").with_attr(OP_ATTRIBUTE, key)
        return self._call(func, key, arguments, shape, dtype)

    def _call(self, func, name, arguments, shape, dtype):
        var = self.builder.add_func(func, name)
        return "emit", var, list(arguments), self._type(shape, dtype)


def program(maker, make, results, name="main"):
    """Build the Imported of one function; ``make(emit)`` returns its results' variables."""
    builder = maker.builder
    given = len(maker.vars)
    with builder.function(
        name, [*maker.vars, *maker.extra], attrs={"num_input": given, "global_symbol": name}
    ):
        with builder.dataflow():

            def emit(call):
                _, var, arguments, kind = call
                return builder.emit(relax.call_tir(var, arguments, kind))

            made = make(emit)
            out = builder.emit_output(relax.Tuple(made) if len(made) != 1 else made[0])
        builder.emit_func_output(out)
    operands = [Operand(n, tuple(s), d) for n, (s, d) in maker.inputs.items()]
    operands += [Operand(f"out{i}", tuple(s), d, "result") for i, (s, d) in enumerate(results)]
    entry = EntryPoint(name, Signature(tuple(operands)))
    return Imported("test", builder.get(), (entry,), maker.ops, maker.parameters)


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


RNG = np.random.default_rng(1)


def normal(*shape, dtype="float32"):
    return RNG.normal(size=shape).astype(dtype)


def nan_max(a, b):
    return tirx.Select(a > b, a, tirx.Select(b >= a, b, a + b))


def check(maker, make, results, arguments, expected, tmp_path, **tolerance):
    built = build_program(program(maker, make, results), folder=tmp_path / "p")
    got = built(*arguments)
    got = got if isinstance(got, tuple) else (got,)
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, **{"rtol": 2e-5, "atol": 1e-6, **tolerance})
    return built


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


def inside(index):
    return tirx.max(tirx.min(index, tirx.const(19, "int64")), tirx.const(0, "int64"))


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
                lambda r, i, j: r[0](
                    tirx.max(tirx.min(r[1](i), tirx.const(19, "int64")), tirx.const(0, "int64")), j
                ),
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


def test_results_have_memory_of_their_own(tmp_path):
    m = Maker(x=((4, 6), "float32"))
    weights = m.parameter("weights", normal(2, 3))

    def reshaped(r, i):
        return r[0](tirx.floordiv(i, 6), tirx.floormod(i, 6))

    def make(emit):
        (x,) = m.vars
        flat = emit(
            m.nest(
                [x], (24,), "float32", lambda r, i: r[0](tirx.floordiv(i, 6), tirx.floormod(i, 6))
            )
        )
        constant = relax.const(np.arange(3, dtype="int32"))
        return [x, flat, weights, constant, x]

    results = [
        ((4, 6), "float32"),
        ((24,), "float32"),
        ((2, 3), "float32"),
        ((3,), "int32"),
        ((4, 6), "float32"),
    ]
    built = build_program(program(m, make, results), folder=tmp_path / "p")
    x = normal(4, 6)
    got = built(x)
    for one in got:
        one[...] = 0
    again = built(x)
    assert x.any()
    for one, other in zip(
        again, [x, x.ravel(), m.parameters["weights"], np.arange(3), x], strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_constants_of_any_rank_and_type(tmp_path):
    m = Maker(x=((4,), "float32"))
    values = [np.array(2.5, "float32"), np.zeros((0, 3), "int8"), np.array([True, False])]
    values += [np.ones((2, 3), ml_dtypes.bfloat16), np.asfortranarray(normal(3, 5))]
    named = [m.parameter(f"constant_{place}", value) for place, value in enumerate(values)]

    def make(emit):
        (x,) = m.vars
        zero = relax.const(np.array(7), "int64")
        scaled = emit(m.nest([x, named[0]], (4,), "float32", lambda r, i: r[0](i) * r[1]()))
        return [scaled, *named, zero]

    x = normal(4)
    expected = [x * np.float32(2.5), *values, np.array(7)]
    results = [(one.shape, str(one.dtype)) for one in expected]
    got = build_program(program(m, make, results), folder=tmp_path / "p")(x)
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_array_equal(one.astype("float64"), other.astype("float64"))


def test_an_op_of_the_registry_and_a_parameter(tmp_path):
    op = ops.matmul((4, 8), (8, 6))
    m = Maker(x=((4, 8), "float32"))
    weights = m.parameter("weights", normal(8, 6))

    def make(emit):
        (x,) = m.vars
        y = emit(m.op("product", op, [x, weights], (4, 6), "float32"))
        return [emit(m.nest([y], (4, 6), "float32", lambda r, i, j: r[0](i, j) + 1.0))]

    x = normal(4, 8)
    built = check(m, make, [((4, 6), "float32")], [x], [x @ m.parameters["weights"] + 1], tmp_path)
    assert built.resources["kernels"] == 1


@pytest.mark.parametrize("rows", [30, "rows"])
def test_contractions_take_in_moves_and_epilogues(rows, tmp_path):
    """bias(relu(x @ broadcast(transpose(w)))) is one kernel, which reads w as it is."""
    op = ops.matmul((2, rows, 8), (2, 8, 6))
    m = Maker(x=((2, rows, 8), "float32"), more=((2, rows, 6), "float32"))
    w, bias = m.parameter("w", normal(6, 8)), m.parameter("bias", normal(6))

    def relu(r, b, i, j):
        return tirx.max(r[0](b, i, j) + r[1](j), tirx.const(0.0, "float32"))

    def make(emit):
        x, more = m.vars
        shape = (2, rows, 6)
        t = emit(m.nest([w], (8, 6), "float32", lambda r, i, j: r[0](j, i)))
        t = emit(m.nest([t], (2, 8, 6), "float32", lambda r, b, i, j: r[0](i, j)))
        y = emit(m.op("product", op, [x, t], shape, "float32"))
        y = emit(m.nest([y, bias], shape, "float32", relu))
        return [
            emit(
                m.nest(
                    [more, y], shape, "float32", lambda r, b, i, j: r[0](b, i, j) - r[1](b, i, j)
                )
            )
        ]

    x, more = normal(2, 30, 8), normal(2, 30, 6)
    y = np.maximum(x @ m.parameters["w"].T + m.parameters["bias"], 0)
    result = ((2, rows, 6), "float32")
    built = check(m, make, [result], [x, more], [more - y], tmp_path, atol=1e-5)
    assert built.resources["kernels"] == 1 + (rows == "rows")  # and what computes extents


def test_a_result_that_is_used_twice_is_no_epilogues(tmp_path):
    op = ops.matmul((4, 8), (8, 6))
    m = Maker(x=((4, 8), "float32"), w=((8, 6), "float32"))

    def make(emit):
        y = emit(m.op("product", op, m.vars, (4, 6), "float32"))
        return [y, emit(m.nest([y], (4, 6), "float32", lambda r, i, j: r[0](i, j) * 2.0))]

    x, w = normal(4, 8), normal(8, 6)
    check(m, make, [((4, 6), "float32")] * 2, [x, w], [x @ w, x @ w * 2], tmp_path, atol=1e-5)


def scaled(tmp_path):
    m = Maker(x=(("n",), "float32"), factor=((), "float32"))

    def make(emit):
        x, factor = m.vars
        return [emit(m.nest([x, factor], ("n",), "float32", lambda r, i: r[0](i) * r[1]()))]

    imported = program(m, make, [(("n",), "float32")])
    (entry,) = imported.functions
    operands = (entry.signature.operands[0], Operand("factor", (), "float32", "scalar"))
    signature = Signature((*operands, *entry.signature.results))
    imported = replace(imported, functions=(EntryPoint("main", signature),))
    return build_program(imported, folder=tmp_path / "scaled")


def test_calls_are_checked_as_those_of_kernels(tmp_path):
    built = scaled(tmp_path)
    x = normal(5)
    np.testing.assert_array_equal(built(x, 2), x * 2)
    np.testing.assert_array_equal(built(factor=3.0, x=x[::2]), x[::2] * 3)
    out = np.empty(5, "float32")
    assert built(x, 2.0, out=out) is out
    np.testing.assert_array_equal(out, x * 2)
    for arguments, message in [
        ((x,), "factor missing"),
        ((x.astype("float64"), 1.0), "x is float64; expected float32"),
        ((x[None], 1.0), "x has rank 2; expected 1"),
        ((x, "a"), "expected a number for float32"),
    ]:
        with pytest.raises(CallError, match=message):
            built(*arguments)
    with pytest.raises(CallError, match=r"out0 has shape \[4\]; expected \[5\]"):
        built(x, 1.0, out=np.empty(4, "float32"))
    with pytest.raises(CallError, match="shares memory with x"):
        built(x, 1.0, out=x)


def test_complex_operands_are_two_tensors_inside(tmp_path):
    m = Maker(**{"x.real": (("n",), "float32"), "x.imag": (("n",), "float32")})

    def make(emit):
        real, imag = m.vars
        product = emit(
            m.nest([real, imag], ("n",), "float32", lambda r, i: r[0](i) * r[1](i) * 2.0)
        )
        square = emit(
            m.nest(
                [real, imag], ("n",), "float32", lambda r, i: r[0](i) * r[0](i) - r[1](i) * r[1](i)
            )
        )
        return [square, product]

    imported = program(m, make, [(("n",), "float32")] * 2)
    operands = (Operand("x", ("n",), "complex64"), Operand("out", ("n",), "complex64", "result"))
    imported = replace(imported, functions=(EntryPoint("main", Signature(operands)),))
    built = build_program(imported, folder=tmp_path / "p")
    x = (normal(9) + 1j * normal(9)).astype("complex64")
    assert built(x).dtype == "complex64"
    np.testing.assert_allclose(built(x), x * x, rtol=1e-5)
    with pytest.raises(CallError, match="x is float32; expected complex64"):
        built(x.real)


def test_python_threads_call_one_program(tmp_path):
    built = scaled(tmp_path)
    x = normal(200_000)

    def call(factor):
        return all(
            np.array_equal(built(x, float(factor)), x * np.float32(factor)) for _ in range(5)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(8)))


def test_torch_in_torch_out(tmp_path):
    torch = pytest.importorskip("torch")
    built = scaled(tmp_path)
    got = built(torch.arange(4.0), 2.0)
    assert isinstance(got, torch.Tensor)
    assert got.tolist() == [0, 2, 4, 6]


def test_an_exported_program_runs_where_there_is_no_tvm(tmp_path):
    scaled(tmp_path).export(tmp_path / "deployed")
    script = """
import sys
import numpy as np
import tvm_iree_ext as ext
program = ext.load(sys.argv[1])
print(program(np.arange(3, dtype="float32"), 2.0).tolist(), "tvm" in sys.modules)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "deployed")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "[0.0, 2.0, 4.0] False"


def test_programs_are_cached_and_pickled(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path / "cache"))
    m = [Maker(x=((4,), "float32")) for _ in range(2)]
    one, other = (
        build_program(
            program(
                n,
                lambda emit, n=n: [
                    emit(n.nest([n["x"]], (4,), "float32", lambda r, i: r[0](i) + 1.0))
                ],
                [((4,), "float32")],
            )
        )
        for n in m
    )
    assert one.folder == other.folder
    assert pickle.loads(pickle.dumps(one))(np.zeros(4, "float32")).tolist() == [1] * 4
    assert repr(one).startswith("<Program test: main for llvm")


@pytest.mark.parametrize("shape", [(1 << 42,), (1 << 31, 1 << 31, 4)])
def test_absurd_extents_are_errors(shape, tmp_path):
    m = Maker(x=((1,), "float32"))

    def make(emit):
        return [emit(m.nest(m.vars, shape, "float32", lambda r, *i: r[0](0)))]

    imported = program(m, make, [(shape, "float32")])
    with pytest.raises((BuildError, CallError)):
        build_program(imported, folder=tmp_path / "p")(normal(1))


def test_a_damaged_program_is_refused(tmp_path):
    built = scaled(tmp_path)
    manifest = built.folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"offset"', '"offsets"'))
    (built.folder / "program.vm").write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"program\.vm has SHA-256"):
        load(built.folder)


class Random:
    """A program of random nests beside what NumPy makes of the same."""

    DTYPES = ("float32", "float32", "float64", "int32", "int64", "int8", "float16", "bool")

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.dynamic = bool(self.rng.random() < 0.4)
        extents = [1, 2, 3, 7, 16, 33, 70, 130]
        self.symbolic = {e for e in extents if self.dynamic and self.rng.random() < 0.5}
        self.known: set[int] = set()
        inputs = {}
        self.values = []
        for place in range(self.rng.integers(1, 4)):
            shape = tuple(int(self.rng.choice(extents)) for _ in range(3))
            shape = shape[: self.rng.integers(0, 4)]
            dtype = str(self.rng.choice(self.DTYPES))
            self.known.update(shape)
            inputs[f"x{place}"] = (self.named(shape), dtype)
            self.values.append(self.array(shape, dtype))
        self.arguments = list(self.values)
        self.maker = Maker(**inputs)

    def named(self, shape):
        """The shape, with names for the extents that are known only at the call."""
        return tuple(f"n{e}" if e in self.symbolic and e in self.known else e for e in shape)

    def array(self, shape, dtype):
        if dtype == "bool":
            return np.asarray(self.rng.random(shape) < 0.5)
        if "int" in dtype:
            return np.asarray(self.rng.integers(-5, 6, shape)).astype(dtype)
        return np.asarray(self.rng.normal(size=shape)).astype(dtype)

    def make(self, emit):
        """Emit nests; the last few are results."""
        made = list(zip(self.maker.vars, self.values, strict=True))
        for _ in range(self.rng.integers(2, 9)):
            var, value = made[self.rng.integers(len(made))]
            kinds = ["unary", "binary", "broadcast", "transpose", "reduce", "pad", "stride"]
            step = getattr(self, str(self.rng.choice(kinds)))(made, var, value)
            if step is not None:
                call, result = step
                made.append((emit(call), result))
        self.results = made[len(self.values) :][-3:] or made[-1:]
        return [var for var, _ in self.results]

    def nest(self, arguments, shape, dtype, body, **more):
        return self.maker.nest(arguments, self.named(shape), str(dtype), body, **more)

    def unary(self, _made, var, value):
        if value.dtype == bool:
            return self.nest([var], value.shape, "bool", lambda r, *i: tirx.Not(r[0](*i))), ~value
        if value.dtype.kind == "i":
            three = tirx.const(3, str(value.dtype))
            call = self.nest([var], value.shape, value.dtype, lambda r, *i: r[0](*i) * three)
            return call, (value * np.array(3, value.dtype)).astype(value.dtype)
        body = lambda r, *i: tirx.tanh(r[0](*i))  # noqa: E731
        return self.nest([var], value.shape, value.dtype, body), np.tanh(value)

    def binary(self, made, var, value):
        same = [m for m in made if m[1].shape == value.shape and m[1].dtype == value.dtype]
        other, number = same[self.rng.integers(len(same))]
        if value.dtype == bool:
            body = lambda r, *i: tirx.And(r[0](*i), r[1](*i))  # noqa: E731
            return self.nest([var, other], value.shape, "bool", body), value & number
        body = lambda r, *i: r[0](*i) - r[1](*i)  # noqa: E731
        return self.nest([var, other], value.shape, value.dtype, body), value - number

    def broadcast(self, _made, var, value):
        if value.ndim > 2:
            return None
        extent = int(self.rng.choice([5, 17, 40]))
        body = lambda r, i, *rest: r[0](*rest)  # noqa: E731
        shape = (extent, *value.shape)
        return self.nest([var], shape, value.dtype, body), np.broadcast_to(value, shape)

    def transpose(self, _made, var, value):
        order = self.rng.permutation(value.ndim)
        back = np.argsort(order)
        body = lambda r, *i: r[0](*(i[b] for b in back))  # noqa: E731
        result = value.transpose(order)
        return self.nest([var], result.shape, value.dtype, body), result

    def reduce(self, _made, var, value):
        if not value.ndim or value.dtype in (bool, np.int8):
            return None
        axis = int(self.rng.integers(value.ndim))
        out = value.shape[:axis] + value.shape[axis + 1 :]
        is_sum = self.rng.random() < 0.5 and value.dtype != np.float16
        low = 0 if is_sum else (-np.inf if value.dtype.kind == "f" else np.iinfo(value.dtype).min)

        def body(o, r, *i):
            *at, k = i
            element = r[0](*at[:axis], k, *at[axis:])
            return o + element if is_sum else tirx.max(o, element)

        result = (np.sum if is_sum else np.max)(value, axis, keepdims=False)
        reduced = self.named(value.shape)[axis : axis + 1]
        call = self.nest([var], out, value.dtype, body, reduced=reduced, init=low)
        return call, np.asarray(result).astype(value.dtype)

    def pad(self, _made, var, value):
        if not value.ndim or self.dynamic:
            return None
        low, high = (int(e) for e in self.rng.integers(0, 4, 2))
        extent = value.shape[-1]
        shape = (*value.shape[:-1], extent + low + high)
        zero = tirx.const(0, str(value.dtype))

        def body(r, *i):
            inside = tirx.And(i[-1] >= low, i[-1] < low + extent)
            return tirx.if_then_else(inside, r[0](*i[:-1], i[-1] - low), zero)

        result = np.pad(value, [(0, 0)] * (value.ndim - 1) + [(low, high)])
        return self.nest([var], shape, value.dtype, body), result

    def stride(self, _made, var, value):
        if not value.ndim or self.dynamic:
            return None
        result = value[::2]
        body = lambda r, i, *rest: r[0](i * 2, *rest)  # noqa: E731
        return self.nest([var], result.shape, value.dtype, body), result


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed, tmp_path):
    check_random(seed, tmp_path / "p")


def check_random(seed, folder):
    """Build the random program of a seed, and compare it with NumPy."""
    case = Random(seed)
    described: list = []

    def make(emit):
        made = case.make(emit)
        described.extend((case.named(v.shape), str(v.dtype)) for _, v in case.results)
        return made

    imported = program(case.maker, make, described)
    got = build_program(imported, folder=folder)(*case.arguments)
    got = got if isinstance(got, tuple) else (got,)
    for one, (_, other) in zip(got, case.results, strict=True):
        assert one.dtype == other.dtype
        loose = 2e-2 if one.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(one, other, rtol=loose, atol=loose)


def test_a_relax_module_is_a_program(tmp_path):
    """Two layers with softmax, of TVM's operators."""
    builder = relax.BlockBuilder()
    rows = tirx.Var("rows", "int64")
    x = relax.Var("x", relax.TensorType((rows, 8), "float32"))
    w = relax.Var("w", relax.TensorType((8, 6), "float32"))
    with builder.function("main", [x, w], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, w))
            y = builder.emit(relax.op.nn.relu(y))
            y = builder.emit_output(relax.op.nn.softmax(y, axis=-1))
        builder.emit_func_output(y)
    built = ext.build(builder.get(), folder=tmp_path / "p")
    x, w = normal(5, 8), normal(8, 6)
    e = np.exp(np.maximum(x @ w, 0))
    np.testing.assert_allclose(built(x, w), e / e.sum(1, keepdims=True), rtol=1e-5)
    assert str(built.main.signature.results[0]) == "out0: float32[rows, 6]"
    with pytest.raises(BuildError, match="a program takes no config"):
        ext.build(builder.get(), config={})


def test_extremes_of_a_relax_module_keep_nan_on_both_sides(tmp_path):
    """As NumPy's do, on the CPU and on a GPU."""
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType((6, 40), "float32")) for name in "xy")
    with builder.function("main", [x, y], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            larger = builder.emit_output(relax.op.maximum(x, y))
            least = builder.emit_output(relax.op.min(x, axis=[1]))
            clipped = builder.emit_output(relax.op.clip(y, -0.5, 0.5))
        builder.emit_func_output(relax.Tuple([larger, least, clipped]))
    imported = from_relax(builder.get())
    x, y = normal(6, 40), normal(6, 40)
    x[0, 0] = x[1, 20] = x[2, 39] = y[3, 0] = y[4, 17] = np.nan
    expected = np.maximum(x, y), x.min(1), np.clip(y, -0.5, 0.5)
    done = simulate_program(imported, "cuda:sm_80", [x, y]).check()
    for results in (build_program(imported, folder=tmp_path / "p")(x, y), done.results):
        for got, want in zip(results, expected, strict=True):
            np.testing.assert_array_equal(got, want)
