"""Regions that take numbers of a call: each op that has one, on the CPU and on simulated GPUs."""

import pickle

import ml_dtypes
import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import CallError, OpError
from tvm_iree_ext.verify import check_op

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


def test_bare_numbers_are_of_the_type_that_they_stand_beside():
    region = ops.region("select(choice > 0, 2 * arg0 + arg1, arg1)", choice="int32")
    assert "T.int8(2) * arg0" in ops.scan((4,), region, dtype="int8").region.text
    wide = ops.region("select(choice > 300, arg0, arg1)", choice="int32")  # no int8
    assert "choice > 300" in ops.scan((4,), wide, dtype="int8").region.text
    signed = ops.region("select(choice > 0, arg0, arg1)", choice="int32")  # -1 is not above 0
    assert "choice > 0," in ops.scan((4,), signed, dtype="uint64").region.text


NEAR = "abs(arg0 - c) < abs(arg1 - c)"
QKV = dict.fromkeys(("query", "key", "value"), (1, 2, 9, 16))
CASES = {
    "scatter": (
        ops.scatter(
            (30, 3), (30, 1), (4, 3), unique_indices=False,
            region=ops.region("arg1 + alpha * arg0", alpha="float32"),
        ),
        {
            "updates": floats(30, 3), "indices": RNG.integers(0, 4, (30, 1)).astype("int32"),
            "original": floats(4, 3), "alpha": 0.5,
        },
    ),
    "sort": (
        ops.sort(
            ops.TensorType((20,), "int32"), dimension=0,
            region=ops.region("(arg0 ^ mask) < (arg1 ^ mask)", mask="int32"),
        ),
        {"operand0": RNG.integers(0, 1000, 20).astype("int32"), "mask": 5},
    ),
    "scan": (
        ops.scan((6, 40), ops.region("arg0 * decay + arg1", decay="float32"), dimension=1),
        {"input": floats(6, 40), "decay": 0.5, "accumulator_init": floats(6)},
    ),
    "attention": (
        ops.attention(
            *QKV.values(), scale="operand",
            region=ops.region("cap * tanh(arg0 / cap)", cap="float32"),
        ),
        {name: floats(*shape) for name, shape in QKV.items()} | {"cap": 3.0, "scale": 0.3},
    ),
    "half attention": (
        ops.attention(
            *QKV.values(), dtype="float16",
            region=ops.region(lambda score, bias: score + bias, bias="float16"),
        ),
        {name: floats(*shape).astype("float16") for name, shape in QKV.items()} | {"bias": 0.25},
    ),
    "topk": (
        ops.topk((4, 30), 3, region=ops.region(NEAR, c="float32")),
        {
            "values": floats(4, 30), "c": 0.25,
            "output_values_init": np.full((4, 3), 1e9, "float32"),
            "output_indices_init": np.full((4, 3), 2**31 - 1, "int32"),
        },
    ),
    "arg_compare": (
        ops.arg_compare((4, 30), ops.region(NEAR, c="float32"), dimension=1),
        {
            "input_value": floats(4, 30), "c": 0.25, "init_value": np.full(4, 1e9, "float32"),
            "init_index": np.zeros(4, "int32"),
        },
    ),
    "exp_reduction": (
        ops.exp_reduction(
            [(3, 40), (40, 5)], [(3,), (3,), (3, 5)],
            indexing_maps=[
                "(m, k, n) -> (m, k)", "(m, k, n) -> (k, n)",
                "(m, k, n) -> (m)", "(m, k, n) -> (m)", "(m, k, n) -> (m, n)",
            ],
            iterator_types=["parallel", "reduction", "parallel"], exp_reduced_operands=[1, 2],
            region=ops.region("arg2, arg0 * c + arg3, arg0 * arg1 * c + arg4", c="float32"),
        ),
        {
            "input0": floats(3, 40), "input1": floats(40, 5), "c": 0.25,
            "init0": np.full(3, -1e30, "float32"), "init1": np.zeros(3, "float32"),
            "init2": np.zeros((3, 5), "float32"),
        },
    ),
    "map_load": (
        ops.map_load(
            ops.TensorType((9, 5), "bfloat16"), (5, 9),
            ops.region("arg1 + shift, arg0, pad", shift="int64", pad="bfloat16"),
        ),
        {"source": floats(9, 5).astype(ml_dtypes.bfloat16), "shift": 2, "pad": -2.5},
    ),
    "map_store": (
        ops.map_store((9,), (12,), ops.region("arg0 + n, arg0 < m", n="int64", m="int32")),
        {"input": floats(9), "output_init": floats(12), "n": 2, "m": 6},
    ),
    "a float of 8 bits": (
        ops.scan((6, 40), ops.region("arg0 * decay + arg1", decay="f8E4M3FN"), dimension=1),
        {"input": floats(6, 40), "accumulator_init": floats(6), "decay": 0.8},
    ),
    "a float of 8 bits in attention": (
        ops.attention(*QKV.values(), region=ops.region("cap * tanh(arg0 / cap)", cap="f8E5M2")),
        {name: floats(*shape) for name, shape in QKV.items()} | {"cap": 2.5},
    ),
    "integers of 4 bits": (
        ops.sort(
            ops.TensorType((4, 30), "int4"),
            dimension=1,
            region=ops.region("(arg0 ^ mask) < (arg1 ^ mask)", mask="int4"),
        ),
        {"operand0": RNG.integers(-8, 8, (4, 30)).astype(ml_dtypes.int4), "mask": -3},
    ),
    "a complex number": (
        ops.scatter(
            ops.TensorType((30, 3), "complex64"), (30, 1), ops.TensorType((4, 3), "complex64"),
            unique_indices=False, region=ops.region("arg1 + alpha * arg0", alpha="complex64"),
        ),
        {
            "updates": RNG.integers(-9, 9, (30, 3)).astype("complex64"),
            "indices": RNG.integers(0, 4, (30, 1)).astype("int32"),
            "alpha": 1 - 2j,
            "original": np.zeros((4, 3), "complex64"),
        },
    ),
    "a complex number of 128 bits": (
        ops.scan(
            ops.TensorType((4, 30), "complex128"), ops.region("arg0 * c + arg1", c="complex128"),
            dimension=1,
        ),
        {
            "input": floats(4, 30) + 1j * floats(4, 30).astype("float64"),
            "accumulator_init": floats(4) * (1j + np.zeros(4)),
            "c": 0.5 - 0.25j,
        },
    ),
    "a padding of 8 bits": (
        ops.map_load(
            ops.TensorType((3, 5), "f8E4M3FN"), (5, 6),
            ops.region("arg1 + shift, arg0, pad * 2", shift="int64", pad="f8E4M3FN"),
        ),
        {"source": floats(3, 5).astype(ml_dtypes.float8_e4m3fn), "shift": 1, "pad": 1.25},
    ),
    "positions": (
        ops.attention(
            *QKV.values(), region=ops.region(lambda x, i, j, c: x - c * (i - j), (2, 4), c="f32")
        ),
        {name: floats(*shape) for name, shape in QKV.items()} | {"c": 0.1},
    ),
    "rows by positions": (
        ops.attention((1, 2, 40, 8), (1, 2, 33, 8), (1, 2, 33, 8), region="arg0 - 0.1 * d4 * d1"),
        {"query": floats(1, 2, 40, 8)} | {n: floats(1, 2, 33, 8) for n in ("key", "value")},
    ),
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("target", ["llvm", "cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("name", CASES)
def test_is_what_the_reference_says(name, target):
    op, operands = CASES[name]
    report = check_op(op, operands, target, simulate=target != "llvm")
    assert report.status == "passed", report


def test_a_call_gives_them_by_position_or_name(tmp_path):
    op, operands = CASES["scan"]
    kernel = ext.build(op, folder=tmp_path / "k")
    x, init = operands["input"], operands["accumulator_init"]
    for decay in (0.5, -1.0):
        one, _ = kernel(x, decay, init)
        other, _ = kernel(input=x, accumulator_init=init, decay=decay)
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one[:, 1], decay * x[:, 0] + x[:, 1], 1e-6, 1e-6)
    with pytest.raises(CallError, match="decay missing"):
        kernel(input=x, accumulator_init=init)


def test_a_large_unsigned_number_is_passed_whole(tmp_path):
    region = ops.region("(arg0 ^ mask) < (arg1 ^ mask)", mask="uint64")
    op = ops.sort(ops.TensorType((4,), "uint64"), dimension=0, region=region)
    x, mask = np.array([1, 2**63 + 1, 7, 2**63], "uint64"), 2**63 + 5
    came = ext.build(op, folder=tmp_path / "k")(x, mask)
    assert came.tolist() == sorted(x.tolist(), key=lambda number: number ^ mask)


def test_ops_are_equal_by_what_they_compute():
    op, _ = CASES["scatter"]
    again = ops.scatter(
        (30, 3), (30, 1), (4, 3), unique_indices=False,
        region=ops.region("arg1 + alpha * arg0", alpha="f32"),
    )  # fmt: skip
    assert op == again == pickle.loads(pickle.dumps(op))
    other = ops.region("arg1 + beta * arg0", beta="float32")
    assert op != ops.scatter((30, 3), (30, 1), (4, 3), unique_indices=False, region=other)


def test_a_pickled_op_is_lowered_as_the_first(tmp_path):
    op, operands = CASES["arg_compare"]
    again = pickle.loads(pickle.dumps(op))
    assert check_op(again, operands, "llvm").status == "passed"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ops.region("arg0", arg1="float32"), "a scalar is named 'arg1'"),
        (
            lambda: ops.scan((4,), ops.region("arg0 + input", input="float32")),
            "the region's input is an operand's name, too",
        ),
        (
            lambda: ops.matmul((4, 4), (4, 4), epilogue=ops.region("arg0 * c", c="float32")),
            "expected operands for these",
        ),
        (lambda: ops.scan((4,), "arg0 + c"), "c"),
        (lambda: ops.scan((4,), "arg0 + d1 * arg1"), "position along d1; its regions take none"),
        (lambda: ops.region("arg0 + d1", d1="float32"), "a scalar is named 'd1'"),
        (lambda: ops.region(lambda x: x, ("m",)), "dims are"),
        (lambda: ops.region("arg0", 5), "dims are 5; expected numbers"),
        (lambda: ops.attention(*QKV.values(), region="arg0 + d9"), "d9; dims are d0 to d5"),
        (lambda: ops.attention(*QKV.values(), region="arg0 + d3"), "along {d3}; scores have"),
    ],
)
def test_says_what_does_not_fit(make, says):
    with pytest.raises(OpError, match=says):
        make()
