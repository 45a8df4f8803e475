"""Constant factors are laid out at build time, where that makes kernels faster."""

import json

import numpy as np
import pytest
from relax_programs import Maker, check, normal, program
from tvm import relax

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.programs import program_constants, program_lowering
from tvm_iree_ext.programs.program_constants import Constants
from tvm_iree_ext.programs.program_lowering import scheduled_program
from tvm_iree_ext.targets.names import make_target


def constants_of(built):
    """The constants in an artifact, by name: their shapes."""
    manifest = json.loads((built.folder / "manifest.json").read_text())
    return {one["name"]: tuple(one["shape"]) for one in manifest["parameters"]}


def linear(rows, k, n, dtype="float32", transposed=False):
    """A linear layer with a bias, as an op, its weight and bias, and what it gives."""
    op = ops.matmul(
        TensorType((rows, k), dtype),
        TensorType((n, k) if transposed else (k, n), dtype),
        [TensorType((n,), dtype)],
        transpose_rhs=transposed,
        epilogue="max(arg0 + arg1, 0)",
    )
    weight, bias = normal(*op.types["rhs"].shape, dtype=dtype), normal(n, dtype=dtype)

    def expected(x):
        return np.maximum(x @ (weight.T if transposed else weight) + bias, 0)

    return op, weight, bias, expected


def test_an_operand_of_the_epilogue_may_have_rows_known_at_the_call_only(tmp_path):
    """``x + y @ weight``, as behind a layer of a transformer."""
    rows = TensorType(("rows", 96), "float32")
    op = ops.matmul(("rows", 20), (20, 96), [rows], epilogue="arg0 + arg1")
    m = Maker(x=(("rows", 96), "float32"), y=(("rows", 20), "float32"))
    weight = normal(20, 96)
    given = m.parameter("weight", weight)

    def make(emit):
        return [emit(m.op("linear", op, [m["y"], given, m["x"]], ("rows", 96), "float32"))]

    x, y = normal(7, 96), normal(7, 20)
    results = [(("rows", 96), "float32")]
    built = check(m, make, results, [x, y], [x + y @ weight], tmp_path)
    assert "weight.panels" in constants_of(built)


def built_linear(op, weight, bias, expected, tmp_path, rows=None):
    shape = op.types["lhs"].shape
    m = Maker(x=(shape, weight.dtype.name))
    given = [m.parameter("weight", weight), m.parameter("bias", bias)]
    result = tuple(op.types["result"].shape)

    def make(emit):
        return [emit(m.op("linear", op, [m["x"], *given], result, weight.dtype.name))]

    x = normal(rows or shape[0], shape[1], dtype=weight.dtype.name)
    return check(m, make, [(result, weight.dtype.name)], [x], [expected(x)], tmp_path)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "transposed", "columns"),
    [("float32", False, 96), ("float32", True, 128), ("float64", True, 48)],
)
def test_a_weight_stands_in_panels(dtype, transposed, columns, tmp_path):
    """Once, by the name that it had."""
    built = built_linear(*linear(37, 20, columns, dtype, transposed), tmp_path)
    shapes = constants_of(built)
    assert set(shapes) == {"weight.panels", "bias"}
    panels, depth, width = shapes["weight.panels"]
    assert panels * width == columns
    assert depth == 20


def test_rows_may_be_known_at_the_call_only(tmp_path):
    made = linear("rows", 33, 96)
    for rows in (1, 5, 70):
        built = built_linear(*made, tmp_path / str(rows), rows)
        assert "weight.panels" in constants_of(built)


@pytest.mark.parametrize(
    ("rows", "columns", "dtype"), [(30, 50, "float32"), (1, 96, "float32"), (30, 96, "float16")]
)
def test_a_weight_that_kernels_read_no_faster_in_panels_stays(rows, columns, dtype, tmp_path):
    """Columns that make no panels, a single row, and numbers that are converted."""
    op, weight, bias, _ = linear(rows, 16, columns, dtype)

    def expected(x):
        wide = [one.astype("float64") for one in (x, weight, bias)]
        return np.maximum(wide[0] @ wide[1] + wide[2], 0).astype(dtype)

    m = Maker(x=((rows, 16), dtype))
    given = [m.parameter("weight", weight), m.parameter("bias", bias)]

    def make(emit):
        return [emit(m.op("linear", op, [m["x"], *given], (rows, columns), dtype))]

    x = normal(rows, 16, dtype=dtype)
    tolerance = {"rtol": 2e-3, "atol": 2e-3} if dtype == "float16" else {}
    results = [((rows, columns), dtype)]
    built = check(m, make, results, [x], [expected(x)], tmp_path, **tolerance)
    assert set(constants_of(built)) == {"weight", "bias"}


def test_a_weight_of_two_layers_stays_and_stands_once(tmp_path):
    weight = normal(48, 48)
    bare = ops.matmul((24, 48), (48, 48))
    m = Maker(x=((24, 48), "float32"))
    shared = m.parameter("weight", weight)

    def make(emit):
        first = emit(m.op("first", bare, [m["x"], shared], (24, 48), "float32"))
        return [emit(m.op("second", bare, [first, shared], (24, 48), "float32"))]

    x = normal(24, 48)
    results = [((24, 48), "float32")]
    tolerance = {"rtol": 1e-4, "atol": 1e-4}
    built = check(m, make, results, [x], [x @ weight @ weight], tmp_path, **tolerance)
    assert set(constants_of(built)) == {"weight"}


def test_batches_of_weights_and_several_dims_of_depth(tmp_path):
    """``init[e, m, n]`` and products of ``x[e, m, h, d]`` and ``weight[h, e, n, d]``."""
    e, m_, h, d, n = 3, 20, 4, 5, 64
    maps = [
        IndexingMap(5, ((0,), (1,), (3,), (4,))),
        IndexingMap(5, ((3,), (0,), (2,), (4,))),
        IndexingMap(5, ((0,), (1,), (2,))),
    ]
    op = ops.contraction((e, m_, h, d), (h, e, n, d), indexing_maps=maps, init=(e, m_, n))
    weight = normal(h, e, n, d)
    m = Maker(x=((e, m_, h, d), "float32"), init=((e, m_, n), "float32"))
    given = m.parameter("weight", weight)

    def make(emit):
        return [emit(m.op("product", op, [m["x"], given, m["init"]], (e, m_, n), "float32"))]

    x, init = normal(e, m_, h, d), normal(e, m_, n)
    expected = init + np.einsum("emhd,hend->emn", x, weight)
    built = check(m, make, [((e, m_, n), "float32")], [x, init], [expected], tmp_path)
    assert set(constants_of(built)) == {"weight.panels"}


def test_programs_compute_the_same_without(tmp_path, monkeypatch):
    made = linear(50, 40, 192)
    built_linear(*made, tmp_path / "with")
    monkeypatch.setattr(program_lowering, "PackWeights", _Nothing)
    built = built_linear(*made, tmp_path / "without")
    assert set(constants_of(built)) == {"weight", "bias"}


class _Nothing:
    def __init__(self, mod, *_):
        self.mod = mod

    def run(self):
        return self.mod


def test_gpus_take_weights_as_they_are():
    op, weight, bias, _ = linear(64, 64, 192)
    m = Maker(x=((64, 64), "float32"))
    given = [m.parameter("weight", weight), m.parameter("bias", bias)]

    def make(emit):
        return [emit(m.op("linear", op, [m["x"], *given], (64, 192), "float32"))]

    imported = program(m, make, [((64, 192), "float32")])
    constants = Constants()
    target = make_target({"kind": "cuda", "arch": "sm_80"})
    scheduled_program(imported, target, constants, ())
    assert {one.name for one in constants.table()} == {"weight", "bias"}


# Filters of convolutions.


def convolution(filters, groups=1, dtype="float32", channels=12, padding=1):
    """A convolution with channels last, an image, its filter, and what it gives."""
    image, taps = (2, 5, 9, channels), (3, 3, channels // groups, filters)
    op = ops.conv_2d(
        TensorType(image, dtype),
        TensorType(taps, dtype),
        padding=padding,
        groups=groups,
        algorithm="im2col",
    )
    x, weight = normal(*image, dtype=dtype), normal(*taps, dtype=dtype)
    arrays = {"input": x, "filter": weight}
    expected = registry.find(op.name).reference(op, arrays)["result"]
    return op, x, weight, expected.astype(dtype)


def built_convolution(made, tmp_path, **tolerance):
    op, x, weight, expected = made
    dtype, shape = weight.dtype.name, expected.shape
    m = Maker(x=(x.shape, dtype))
    given = m.parameter("weight", weight)

    def make(emit):
        return [emit(m.op("convolution", op, [m["x"], given], shape, dtype))]

    tolerance = tolerance or {"rtol": 1e-4, "atol": 1e-4}
    return check(m, make, [(shape, dtype)], [x], [expected], tmp_path, **tolerance)


@pytest.mark.parametrize(
    ("filters", "groups", "dtype"), [(64, 1, "float32"), (128, 2, "float32"), (32, 1, "float64")]
)
def test_a_filter_stands_in_panels(filters, groups, dtype, tmp_path):
    built = built_convolution(convolution(filters, groups, dtype), tmp_path)
    ((name, shape),) = constants_of(built).items()
    assert name == "weight.panels"
    panels, *window, width = shape
    assert window == [3, 3, 12 // groups]
    assert panels * width == filters
    assert filters // groups % width == 0


@pytest.mark.costly
@pytest.mark.parametrize(
    ("filters", "groups", "dtype"),
    [(50, 1, "float32"), (100, 2, "float32"), (12, 12, "float32"), (64, 1, "float16")],
    ids=["no whole panels", "none of a group", "depthwise", "float16"],
)
def test_a_filter_that_kernels_read_no_faster_in_panels_stays(filters, groups, dtype, tmp_path):
    made = convolution(filters, groups, dtype)
    loose = 2e-2 if dtype == "float16" else 1e-4
    built = built_convolution(made, tmp_path, rtol=loose, atol=loose)
    assert list(constants_of(built)) == ["weight"]


def test_a_filter_of_the_module_itself_is_packed_too(tmp_path):
    op, x, weight, expected = convolution(64)
    m = Maker(x=(x.shape, "float32"))
    shape = expected.shape

    def make(emit):
        constant = relax.const(weight)
        return [emit(m.op("convolution", op, [m["x"], constant], shape, "float32"))]

    tolerance = {"rtol": 1e-4, "atol": 1e-4}
    built = check(m, make, [(shape, "float32")], [x], [expected], tmp_path, **tolerance)
    ((_, shape),) = constants_of(built).items()
    assert len(shape) == 5


def test_convolutions_compute_the_same_without(tmp_path, monkeypatch):
    made = convolution(64)
    monkeypatch.setattr(program_lowering, "PackWeights", _Nothing)
    assert list(constants_of(built_convolution(made, tmp_path))) == ["weight"]


def test_a_filter_of_two_layers_stays_and_stands_once(tmp_path):
    op, x, weight, first = convolution(64, channels=64)
    arrays = {"input": first, "filter": weight}
    second = registry.find(op.name).reference(op, arrays)["result"].astype("float32")
    m = Maker(x=(x.shape, "float32"))
    shared = m.parameter("weight", weight)

    def make(emit):
        y = emit(m.op("first", op, [m["x"], shared], first.shape, "float32"))
        return [emit(m.op("second", op, [y, shared], second.shape, "float32"))]

    loose = {"rtol": 1e-4, "atol": 1e-2}
    built = check(m, make, [(second.shape, "float32")], [x], [second], tmp_path, **loose)
    assert list(constants_of(built)) == ["weight"]


def test_packed_constants_are_written_piece_by_piece(tmp_path, monkeypatch):
    """A view of the weight until then, which takes no memory."""
    monkeypatch.setattr(program_constants, "_PIECE", 1000)
    array = normal(37, 5, 6)
    constants = Constants()
    constants.add("moved", array.transpose(2, 0, 1))
    constants.add("number", np.float32(3).reshape(()))
    constants.add("none", np.empty((0, 4), "float32"))
    constants.write(tmp_path / "file")
    data = np.fromfile(tmp_path / "file", "float32")
    moved, number, _ = constants.table()
    np.testing.assert_array_equal(data[: array.size].reshape(6, 37, 5), array.transpose(2, 0, 1))
    assert data[number.offset // 4] == 3
    assert moved.shape == (6, 37, 5)
