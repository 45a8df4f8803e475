"""Ops of the registry in programs, and what is fused into their kernels."""

import ml_dtypes
import numpy as np
import pytest
from relax_programs import Maker, check, normal
from tvm import relax, tirx

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.signature import TensorType


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


def test_the_beginning_of_a_product_is_no_epilogue(tmp_path):
    """It stands at the same places, but is smaller."""
    op = ops.matmul((2, 4, 8), (2, 8, 6))
    m = Maker(x=((2, 4, 8), "float32"), w=((2, 8, 6), "float32"))

    def make(emit):
        y = emit(m.op("product", op, list(m.vars), (2, 4, 6), "float32"))
        return [emit(m.nest([y], (1, 4, 6), "float32", lambda r, b, i, j: r[0](b, i, j)))]

    x, w = normal(2, 4, 8), normal(2, 8, 6)
    check(m, make, [((1, 4, 6), "float32")], [x, w], [(x @ w)[:1]], tmp_path)


def test_elements_of_a_product_that_are_gathered_are_no_epilogue(tmp_path):
    """Its sums are read at places that another operand says, and the result has another rank."""
    op = ops.matmul((4, 8), (8, 6))
    m = Maker(x=((4, 8), "float32"), w=((8, 6), "float32"), at=((3, 5), "int32"))

    def gathered(r, i, j, k):
        return r[0](i, tirx.min(tirx.max(r[1](j, k), 0), 5))

    def make(emit):
        x, w, at = m.vars
        y = emit(m.op("product", op, [x, w], (4, 6), "float32"))
        return [emit(m.nest([y, at], (4, 3, 5), "float32", gathered))]

    x, w = normal(4, 8), normal(8, 6)
    at = np.random.default_rng(0).integers(0, 6, (3, 5)).astype("int32")
    check(m, make, [((4, 3, 5), "float32")], [x, w, at], [(x @ w)[:, at]], tmp_path)


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


@pytest.mark.parametrize("batch", [1, 2])
def test_moves_of_operands_with_an_axis_of_extent_1(batch, tmp_path):
    """x.transpose(0, 1) @ broadcast(transpose(w)) is one kernel, whatever the batch."""
    op = ops.matmul((5, batch, 8), (5, 8, 6))
    m = Maker(x=((batch, 5, 8), "float32"))
    w = m.parameter("w", normal(6, 8))

    def make(emit):
        (x,) = m.vars
        turned = emit(m.nest([x], (5, batch, 8), "float32", lambda r, i, j, k: r[0](j, i, k)))
        t = emit(m.nest([w], (8, 6), "float32", lambda r, i, j: r[0](j, i)))
        t = emit(m.nest([t], (5, 8, 6), "float32", lambda r, b, i, j: r[0](i, j)))
        return [emit(m.op("product", op, [turned, t], (5, batch, 6), "float32"))]

    x = normal(batch, 5, 8)
    want = x.transpose(1, 0, 2) @ m.parameters["w"].T
    result = ((5, batch, 6), "float32")
    built = check(m, make, [result], [x], [want], tmp_path, atol=1e-5)
    assert built.resources["kernels"] == 1


def test_an_operand_that_cannot_be_read_in_place_leaves_the_others(tmp_path):
    """The rows of x are a part of it; w is read transposed all the same."""
    op = ops.matmul((4, 8), (8, 6))
    m = Maker(x=((9, 8), "float32"), w=((6, 8), "float32"))

    def make(emit):
        x, w = m.vars
        part = emit(m.nest([x], (4, 8), "float32", lambda r, i, j: r[0](i + 2, j)))
        t = emit(m.nest([w], (8, 6), "float32", lambda r, i, j: r[0](j, i)))
        return [emit(m.op("product", op, [part, t], (4, 6), "float32"))]

    x, w = normal(9, 8), normal(6, 8)
    built = check(m, make, [((4, 6), "float32")], [x, w], [x[2:6] @ w.T], tmp_path, atol=1e-5)
    assert built.resources["kernels"] == 2


def test_a_factor_alone_with_a_dim_stays_broadcast_along_it(tmp_path):
    """The dim is the broadcast factor's and the result's: no other factor would say its extent."""
    maps = ["(a, b, c, k) -> (a, k)", "(a, b, c, k) -> (b, k, c)", "(a, b, c, k) -> (a, b, c)"]
    op = ops.contraction((4, 8), (3, 8, 5), indexing_maps=maps)
    m = Maker(x=((4, 8), "float32"), w=((8, 5), "float32"))

    def make(emit):
        x, w = m.vars
        wide = emit(m.nest([w], (3, 8, 5), "float32", lambda r, b, k, c: r[0](k, c)))
        return [emit(m.op("product", op, [x, wide], (4, 3, 5), "float32"))]

    x, w = normal(4, 8), normal(8, 5)
    result = np.repeat((x @ w)[:, None], 3, axis=1)
    check(m, make, [((4, 3, 5), "float32")], [x, w], [result], tmp_path)


def test_an_epilogue_behind_a_reshape(tmp_path):
    """(15, 6) as (5, 3, 6), plus a bias, times what has all of these axes."""
    op = ops.matmul((15, 8), (8, 6))
    m = Maker(x=((15, 8), "float32"), w=((8, 6), "float32"), more=((5, 3, 6), "float32"))
    bias = m.parameter("bias", normal(6))

    def make(emit):
        x, w, more = m.vars
        y = emit(m.op("product", op, [x, w], (15, 6), "float32"))
        y = m.builder.emit(relax.op.reshape(y, (5, 3, 6)))
        y = emit(m.nest([y, bias], (5, 3, 6), "float32", lambda r, *at: r[0](*at) + r[1](at[-1])))
        return [emit(m.nest([y, more], (5, 3, 6), "float32", lambda r, *at: r[0](*at) * r[1](*at)))]

    x, w, more = normal(15, 8), normal(8, 6), normal(5, 3, 6)
    want = ((x @ w).reshape(5, 3, 6) + m.parameters["bias"]) * more
    built = check(m, make, [((5, 3, 6), "float32")], [x, w, more], [want], tmp_path, atol=1e-5)
    assert built.resources["kernels"] == 1


def test_a_part_of_joined_axes_is_no_operand_of_an_epilogue(tmp_path):
    """The result's rows are two axes of the nest, one of which alone an operand goes along."""
    op = ops.matmul((15, 8), (8, 6))
    m = Maker(x=((15, 8), "float32"), w=((8, 6), "float32"), more=((3,), "float32"))

    def make(emit):
        x, w, more = m.vars
        y = emit(m.op("product", op, [x, w], (15, 6), "float32"))
        y = m.builder.emit(relax.op.reshape(y, (5, 3, 6)))
        return [
            emit(m.nest([y, more], (5, 3, 6), "float32", lambda r, *at: r[0](*at) + r[1](at[1])))
        ]

    x, w, more = normal(15, 8), normal(8, 6), normal(3)
    want = (x @ w).reshape(5, 3, 6) + more[:, None]
    built = check(m, make, [((5, 3, 6), "float32")], [x, w, more], [want], tmp_path, atol=1e-5)
    assert built.resources["kernels"] == 2


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_convolution_takes_in_what_is_added_to_it_and_what_follows(layout, tmp_path):
    """relu(convolution + bias of each filter + residual) is one kernel."""
    last = layout == "NHWC"
    filters = 3  # under half a vector of any CPU with AVX: NCHW is not moved to NHWC
    image, taps = ((2, 7, 6, 3), (3, 3, 3, filters)) if last else ((2, 3, 7, 6), (filters, 3, 3, 3))
    shape = (2, 7, 6, filters) if last else (2, filters, 7, 6)
    op = ops.conv_2d(
        image,
        taps,
        [shape],
        layout=layout,
        padding=1,
        algorithm="im2col",
        epilogue=lambda sums, init: sums + init,
    )
    m = Maker(x=(image, "float32"), w=(taps, "float32"), more=(shape, "float32"))
    bias = m.parameter("bias", normal(filters))

    def make(emit):
        x, w, more = m.vars
        wide = m.nest([bias], shape, "float32", lambda r, *at: r[0](at[3 if last else 1]))
        y = emit(m.op("convolution", op, [x, w, emit(wide)], shape, "float32"))
        y = emit(m.nest([y, more], shape, "float32", lambda r, *at: r[0](*at) + r[1](*at)))
        zero = tirx.const(0.0, "float32")
        return [emit(m.nest([y], shape, "float32", lambda r, *at: tirx.max(r[0](*at), zero)))]

    x, w, more = normal(*image), normal(*taps), normal(*shape)
    wide = m.parameters["bias"] if last else m.parameters["bias"][:, None, None]
    wide = np.broadcast_to(wide, shape)
    arrays = {"input": x, "filter": w, "operand0": np.ascontiguousarray(wide)}
    sums = registry.find(op.name).reference(op, arrays)["result"]
    want = np.maximum(sums + more, 0).astype("float32")
    built = check(m, make, [(shape, "float32")], [x, w, more], [want], tmp_path, atol=1e-4)
    assert built.resources["kernels"] == 1


@pytest.mark.parametrize(("rows", "columns"), [(20, 30), (24, 24)])
def test_a_transposed_result_is_written_as_it_is_read(rows, columns, tmp_path):
    """weight - 0.5 * transpose(x @ y) is one kernel, as a step of training is."""
    op = ops.matmul((rows, 8), (8, columns))
    shapes = {"x": (rows, 8), "y": (8, columns), "weight": (columns, rows)}
    m = Maker(**{name: (shape, "float32") for name, shape in shapes.items()})

    def make(emit):
        x, y, w = m.vars
        product = emit(m.op("product", op, [x, y], (rows, columns), "float32"))
        shape = (columns, rows)
        turned = emit(m.nest([product], shape, "float32", lambda r, i, j: r[0](j, i)))
        scaled = emit(m.nest([turned], shape, "float32", lambda r, i, j: r[0](i, j) * 0.5))
        step = m.nest([w, scaled], shape, "float32", lambda r, i, j: r[0](i, j) - r[1](i, j))
        return [emit(step)]

    x, y, weight = (normal(*shape) for shape in shapes.values())
    expected = weight - np.float32(0.5) * (x @ y).T
    results = [((columns, rows), "float32")]
    built = check(m, make, results, [x, y, weight], [expected], tmp_path)
    assert built.resources["kernels"] == 1


def test_a_result_read_in_two_orders_is_computed_before(tmp_path):
    op = ops.matmul((24, 8), (8, 24))
    m = Maker(x=((24, 8), "float32"), y=((8, 24), "float32"))

    def make(emit):
        product = emit(m.op("product", op, list(m.vars), (24, 24), "float32"))
        both = m.nest([product], (24, 24), "float32", lambda r, i, j: r[0](i, j) + r[0](j, i))
        return [emit(both)]

    x, y = normal(24, 8), normal(8, 24)
    expected = x @ y + (x @ y).T
    built = check(m, make, [((24, 24), "float32")], [x, y], [expected], tmp_path)
    assert built.resources["kernels"] == 2


def test_a_product_that_begins_with_a_tensor_is_not_written_in_another_order(tmp_path):
    op = ops.matmul((20, 8), (8, 30), init=(20, 30))
    names = {"x": (20, 8), "y": (8, 30), "init": (20, 30)}
    m = Maker(**{name: (shape, "float32") for name, shape in names.items()})

    def make(emit):
        product = emit(m.op("product", op, list(m.vars), (20, 30), "float32"))
        return [emit(m.nest([product], (30, 20), "float32", lambda r, i, j: r[0](j, i)))]

    x, y, init = (normal(*shape) for shape in names.values())
    check(m, make, [((30, 20), "float32")], [x, y, init], [(x @ y + init).T], tmp_path)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 12])
def test_an_epilogue_in_16_bits_rounds_where_the_program_does(dtype, rows, tmp_path):
    """Sums, whole numbers that 16 bits do not hold, are rounded before the bias is added.

    All is one kernel in float16; what is behind a rounding to bfloat16 is another.
    """
    kind = numpy_dtype(dtype)
    large = {"float16": 2049, "bfloat16": 257}[dtype]
    op = ops.matmul(
        TensorType((rows, 8), dtype), TensorType((8, 32), dtype), result_dtype="float32"
    )
    m = Maker(x=((rows, 8), dtype))
    w, bias = np.ones((8, 32), kind), np.arange(32).astype(kind)
    given = m.parameter("w", w), m.parameter("bias", bias)
    shape = (rows, 32)

    def make(emit):
        sums = emit(m.op("product", op, [m["x"], given[0]], shape, "float32"))
        y = emit(m.nest([sums], shape, dtype, lambda r, i, j: tirx.Cast(dtype, r[0](i, j))))
        return [emit(m.nest([y, given[1]], shape, dtype, lambda r, i, j: r[0](i, j) + r[1](j)))]

    x = np.zeros((rows, 8), kind)
    x[:, 0], x[:, 1] = large - 1, 1
    want = (np.full(shape, large).astype(kind) + bias).astype(kind)
    built = check(m, make, [(shape, dtype)], [x], [want], tmp_path, rtol=0, atol=0)
    assert built.resources["kernels"] == {"float16": 1, "bfloat16": 2}[dtype]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_no_number_stays_such_in_16_bits(dtype, tmp_path):
    """Beyond the largest number is infinity, as what is stored and read again would be."""
    kind = numpy_dtype(dtype)
    op = ops.matmul(TensorType((3, 1), dtype), TensorType((1, 8), dtype), result_dtype="float32")
    m = Maker(x=((3, 1), dtype), w=((1, 8), dtype))

    def make(emit):
        sums = emit(m.op("product", op, list(m.vars), (3, 8), "float32"))
        y = emit(m.nest([sums], (3, 8), dtype, lambda r, i, j: tirx.Cast(dtype, r[0](i, j))))
        return [
            emit(m.nest([y], (3, 8), "float32", lambda r, i, j: tirx.Cast("float32", r[0](i, j))))
        ]

    most = float(ml_dtypes.finfo(kind).max)
    x = np.array([[most], [-most], [np.nan]], kind)
    w = np.array([[0, 1, 1.0078125, 2, -1, 0.5, np.inf, np.nan]], kind)
    with np.errstate(all="ignore"):
        want = (x.astype("float32") * w.astype("float32")).astype(kind).astype("float32")
    built = check(m, make, [((3, 8), "float32")], [x, w], [want], tmp_path, rtol=0, atol=0)
    assert built.resources["kernels"] == {"float16": 1, "bfloat16": 2}[dtype]


def test_integers_behind_sums_of_floats_are_no_epilogue(tmp_path):
    op = ops.matmul((4, 8), (8, 6))
    m = Maker(x=((4, 8), "float32"), w=((8, 6), "float32"))

    def make(emit):
        y = emit(m.op("product", op, list(m.vars), (4, 6), "float32"))
        return [emit(m.nest([y], (4, 6), "int32", lambda r, i, j: tirx.Cast("int32", r[0](i, j))))]

    x, w = np.ones((4, 8), "float32"), np.ones((8, 6), "float32")
    built = check(m, make, [((4, 6), "int32")], [x, w], [np.full((4, 6), 8, "int32")], tmp_path)
    assert built.resources["kernels"] == 2
