"""Relax modules as programs."""

import math

import numpy as np
import pytest
from relax_programs import normal
from tvm import relax, tirx

import tvm_iree_ext as ext
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program


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


def test_comparisons_of_a_relax_module_hold_beside_nan(tmp_path):
    """And their opposites: TVM takes "not less" for "greater or equal"."""
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType((3, 40), "float32")) for name in "xy")
    with builder.function("main", [x, y], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            compared = [relax.op.not_equal(x, y), relax.op.not_equal(x, x), relax.op.equal(y, y)]
            for name in ("less", "less_equal", "greater", "greater_equal", "equal"):
                one = builder.emit(getattr(relax.op, name)(x, y))
                compared.append(relax.op.logical_not(one))
            given = [builder.emit(one) for one in compared]
            given = builder.emit_output(relax.Tuple(given))
        builder.emit_func_output(given)
    x, y = normal(3, 40), normal(3, 40)
    x[:, ::3], y[:, ::4], y[0] = np.nan, np.nan, x[0]
    wanted = [x != y, x != x, y == y, ~(x < y), ~(x <= y), ~(x > y), ~(x >= y), ~(x == y)]
    for result, want in zip(
        ext.build(builder.get(), folder=tmp_path / "p")(x, y), wanted, strict=True
    ):
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("training", [True, False])
def test_a_batch_norm_in_training_takes_mean_and_variance_of_the_batch(tmp_path, training):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3, 4, 5), "float32"))
    others = [relax.Var(n, relax.TensorType((3,), "float32")) for n in ("w", "b", "mean", "var")]
    with builder.function("main", [x, *others], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            norm = relax.op.nn.batch_norm(x, *others, axis=1, momentum=0.25, training=training)
            norm = builder.emit_output(norm)
        builder.emit_func_output(norm)
    x, (w, b, mean) = normal(2, 3, 4, 5), normal(3, 3)
    var = np.abs(normal(3)) + 1
    got, moved_mean, moved_var = ext.build(builder.get(), folder=tmp_path / "p")(x, w, b, mean, var)
    axes = (0, 2, 3)
    of_batch = x.mean(axes), x.var(axes)
    m, v = (s.reshape(3, 1, 1) for s in (of_batch if training else (mean, var)))
    want = (x - m) / np.sqrt(v + 1e-5) * w.reshape(3, 1, 1) + b.reshape(3, 1, 1)
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)
    new = of_batch if training else (mean, var)
    np.testing.assert_allclose(moved_mean, 0.75 * mean + 0.25 * new[0], 1e-4, 1e-5)
    np.testing.assert_allclose(moved_var, 0.75 * var + 0.25 * new[1], 1e-4, 1e-5)


def test_results_of_extents_that_follow_from_data_are_refused_for_what_they_are():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((6,), "float32"))
    with builder.function("main", [x], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            y = builder.emit_output(relax.op.nonzero(x))
        builder.emit_func_output(y)
    with pytest.raises(BuildError, match=r"out0 is .*, whose extents follow from data; expected"):
        from_relax(builder.get())


@pytest.mark.costly
@pytest.mark.parametrize(("dtype", "descending"), [("float32", True), ("int8", False)])
def test_sorts_of_a_relax_module_are_the_registrys(dtype, descending, tmp_path):
    """TVM has no loops for them, and its own sort does not take every type."""
    builder = relax.BlockBuilder()
    rows = tirx.Var("rows", "int64")
    x = relax.Var("x", relax.TensorType((rows, 9), dtype))
    with builder.function("main", [x], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            ordered = builder.emit(relax.op.sort(x, axis=0, descending=descending))
            places = builder.emit(relax.op.argsort(x, 1, descending, "int32"))
            best = builder.emit(relax.op.topk(x, 3, axis=1, largest=descending, dtype="int64"))
            both = [builder.emit(relax.TupleGetItem(best, i)) for i in (0, 1)]
            given = builder.emit_output(relax.Tuple([ordered, places, *both]))
        builder.emit_func_output(given)
    built = ext.build(builder.get(), folder=tmp_path / "p")
    x = np.random.default_rng(0).integers(-5, 6, (6, 9)).astype(dtype)
    keys = -x.astype("float32") if descending else x.astype("float32")
    order = np.argsort(keys, 1, kind="stable")
    got = built(x)
    np.testing.assert_array_equal(got[0], -np.sort(-x, 0) if descending else np.sort(x, 0))
    np.testing.assert_array_equal(got[1], order)
    np.testing.assert_array_equal(got[2], np.take_along_axis(x, order, 1)[:, :3])
    np.testing.assert_array_equal(got[3], order[:, :3])
    assert [str(result.dtype) for result in got[1:]] == ["int32", dtype, "int64"]


@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_and_products_of_a_relax_module_are_the_registrys(exclusive, tmp_path):
    builder = relax.BlockBuilder()
    rows = tirx.Var("rows", "int64")
    x = relax.Var("x", relax.TensorType((rows, 9), "int8"))
    y = relax.Var("y", relax.TensorType((3, rows), "float32"))
    z = relax.Var("z", relax.TensorType((3, 2), "bool"))
    with builder.function("main", [x, y, z], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            wide = builder.emit(relax.op.cumsum(x, 0, "int32", exclusive))
            product = builder.emit(relax.op.cumprod(y, -1, exclusive=exclusive))
            some = builder.emit(relax.op.cumsum(z, 0, exclusive=exclusive))
            flat = builder.emit(relax.op.cumsum(x, None, "int64", exclusive))
            given = builder.emit_output(relax.Tuple([wide, product, some, flat]))
        builder.emit_func_output(given)
    built = ext.build(builder.get(), folder=tmp_path / "p")
    rng = np.random.default_rng(0)

    def running(combine, a, axis):
        if not exclusive:
            return combine.accumulate(a, axis)
        first = np.full_like(a.take([0], axis), combine.identity)
        return combine.accumulate(np.concatenate([first, a], axis), axis).take(
            range(a.shape[axis]), axis
        )

    for rows in (5, 1):
        a = rng.integers(-128, 128, (rows, 9)).astype("int8")
        b, c = rng.uniform(0.5, 1.5, (3, rows)).astype("float32"), rng.random((3, 2)) < 0.5
        got = built(a, b, c)
        np.testing.assert_array_equal(got[0], running(np.add, a.astype("int32"), 0))
        np.testing.assert_allclose(got[1], running(np.multiply, b, 1), 1e-6)
        np.testing.assert_array_equal(got[2], running(np.logical_or, c, 0))
        np.testing.assert_array_equal(got[3], running(np.add, a.astype("int64").reshape(-1), 0))


def made(shape, dtype, emit):
    """A module of what ``emit`` gives of one input."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            y = builder.emit_output(emit(builder, x))
        builder.emit_func_output(y)
    return builder.get()


@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 5), (2, 3, 64)])
def test_a_root_is_not_taken_in_the_place_of_the_sum_that_it_is_of(shape, tmp_path):
    """Vectors of rows overlap, and what is computed twice would be the root of a root."""
    weight = relax.const(np.ones(shape[-1], "float32"))
    module = made(shape, "float32", lambda b, x: relax.op.nn.rms_norm(x, weight, [-1], 1e-5))
    x = normal(*shape)
    want = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(ext.build(module, folder=tmp_path / "p")(x), want, rtol=1e-5)


@pytest.mark.parametrize("target", ["llvm", "cuda:sm_80"])
def test_bfloat16_is_computed_in_float32_and_rounded(target, tmp_path):
    """Sums, and maxima that keep NaN: TVM forgets to round what it computes in float32."""
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType((3, 16), "bfloat16")) for name in "xy")
    with builder.function("main", [x, y], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            total = builder.emit_output(relax.op.sum(x, axis=[1]))
            columns = builder.emit_output(relax.op.sum(relax.op.multiply(x, y), axis=[0]))
            larger = builder.emit_output(relax.op.maximum(x, y))
            largest = builder.emit_output(relax.op.max(x, axis=[1]))
        builder.emit_func_output(relax.Tuple([total, columns, larger, largest]))
    imported = from_relax(builder.get())
    bfloat16 = numpy_dtype("bfloat16")
    x, y = (np.random.default_rng(s).integers(-2, 3, (3, 16)).astype(bfloat16) for s in (0, 1))
    x[2, 5] = np.nan
    if target == "llvm":
        results = build_program(imported, folder=tmp_path / "p")(x, y)
    else:
        results = simulate_program(imported, target, [x, y]).check().results
    wide = [one.astype("float32") for one in (x, y)]
    expected = (wide[0].sum(1), (wide[0] * wide[1]).sum(0), np.maximum(*wide), wide[0].max(1))
    for got, want in zip(results, expected, strict=True):
        assert got.dtype == bfloat16
        np.testing.assert_array_equal(got.astype("float32"), want)


@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "sqrt", "erf", "floor", "abs"])
def test_functions_of_bfloat16_that_are_used_twice_are_rounded(name, tmp_path):
    function = getattr(relax.op, name)

    def emit(builder, x):
        value = builder.emit(function(x))
        return relax.op.add(value, value)

    x = abs(normal(3, 21)).astype(numpy_dtype("bfloat16"))
    got = ext.build(made((3, 21), "bfloat16", emit), folder=tmp_path / "p")(x)
    wide = x.astype("float64")
    known = {"sigmoid": lambda v: 1 / (1 + np.exp(-v)), "erf": np.vectorize(math.erf)}
    want = known.get(name, getattr(np, name, None))(wide) * 2
    np.testing.assert_allclose(got.astype("float64"), want, rtol=2**-7)


def test_what_is_not_0_is_true(tmp_path):
    """A constant, too: TVM takes none but 0 and 1 for a bool."""

    def emit(builder, x):
        three = builder.emit(relax.op.full([4], relax.const(3, "int32"), "int32"))
        return relax.op.logical_and(relax.op.astype(three, "bool"), relax.op.astype(x, "bool"))

    x = np.array([0, 2, -1, 0], "int8")
    got = ext.build(made((4,), "int8", emit), folder=tmp_path / "p")(x)
    np.testing.assert_array_equal(got, x != 0)


@pytest.mark.parametrize("extents", [(2, 1), (34, 17)])
def test_a_reshape_that_is_read_backwards_or_from_the_middle(extents, tmp_path):
    """TVM's own flattening loses the sign, and a row, where iterators are divided."""
    rows, columns = extents
    count = rows * columns

    def emit(builder, x):
        flat = builder.emit(relax.op.reshape(x, [count]))
        first = builder.emit(relax.op.strided_slice(flat, [0], [count // 3], [count], [1]))
        return relax.op.flip(relax.op.reshape(first, [1, count - count // 3]), 1)

    x = normal(*extents)
    got = ext.build(made(extents, "float32", emit), folder=tmp_path / "p")(x)
    np.testing.assert_array_equal(got, x.reshape(-1)[count // 3 :][None, ::-1])


def test_two_extents_of_one_name_are_different_extents(tmp_path):
    n, other = tirx.Var("n", "int64"), tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 3), "float32"))
    y = relax.Var("y", relax.TensorType((other, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            joined = builder.emit(relax.op.concat([x, y], axis=0))
            out = builder.emit_output(relax.op.multiply(joined, joined))
        builder.emit_func_output(out)
    built = build_program(from_relax(builder.get()), folder=tmp_path / "p")
    a, b = np.ones((2, 3), "float32"), np.full((5, 3), 2, "float32")
    np.testing.assert_array_equal(built(a, b), np.concatenate([a, b]) ** 2)
