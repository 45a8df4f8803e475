"""Functions of TE and TensorIR as programs: operands, results, and what is refused."""

import numpy as np
import pytest
from relax_programs import normal
from tvm import te, tirx, topi
from tvm.script import tirx as T

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.programs.relax_import.from_tir import from_functions, from_tensors
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program


@T.prim_func(s_tir=True)
def scaled(out: T.handle, rows: T.int32, factor: T.float32, a: T.handle):
    columns = T.int32()
    Out = T.match_buffer(out, (rows, columns))
    A = T.match_buffer(a, (rows, columns))
    for i, j in T.grid(rows, columns):
        with T.sblock("scaled"):
            vi, vj = T.axis.remap("SS", [i, j])
            Out[vi, vj] = A[vi, vj] * factor


@T.prim_func(s_tir=True)
def halves(A: T.Buffer((6,), "float32"), Low: T.Buffer((3,), "float32"),
           High: T.Buffer((3,), "float32")):  # fmt: skip
    for i in T.serial(3):
        with T.sblock("low"):
            vi = T.axis.spatial(3, i)
            Low[vi] = A[vi]
    for i in T.serial(3):
        with T.sblock("high"):
            vi = T.axis.spatial(3, i)
            High[vi] = Low[vi] + A[vi + 3]


@T.prim_func(s_tir=True)
def doubled_in_place(A: T.Buffer((4,), "float32")):
    for i in T.serial(4):
        with T.sblock("doubled"):
            vi = T.axis.spatial(4, i)
            A[vi] = A[vi] * T.float32(2)


@T.prim_func(s_tir=True)
def nothing(A: T.Buffer((4,), "float32")):
    T.evaluate(A[0])


@T.prim_func(s_tir=True)
def counted(out: T.handle):
    n = T.int32()
    Out = T.match_buffer(out, (n,), "int32")
    for i in T.serial(n):
        with T.sblock("counted"):
            vi = T.axis.spatial(n, i)
            Out[vi] = vi


def test_extents_and_scalars_follow_from_the_arguments(tmp_path):
    program = ext.build(scaled, folder=tmp_path / "p")
    for rows in (2, 5):
        a = normal(rows, 7)
        np.testing.assert_array_equal(program(np.float32(3), a), a * np.float32(3))


def test_several_results_of_which_one_is_read_again(tmp_path):
    a = normal(6)
    low, high = ext.build(halves, folder=tmp_path / "p")(a)
    np.testing.assert_array_equal(low, a[:3])
    np.testing.assert_array_equal(high, a[:3] + a[3:])


def test_tensors_of_te_are_operands_and_results(tmp_path):
    x = te.placeholder((2, 3, 9, 9), name="x")
    w = te.placeholder((5, 3, 3, 3), name="w")
    y = topi.nn.relu(topi.nn.conv2d_nchw(x, w, 1, 0, 1))
    program = ext.build([x, w, y], folder=tmp_path / "p")
    a, b = normal(2, 3, 9, 9), normal(5, 3, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), (2, 3))
    want = np.maximum(np.einsum("nchwij,fcij->nfhw", windows, b), 0)
    np.testing.assert_allclose(program(a, b), want, 1e-4, 1e-4)


def test_products_become_contractions():
    k = te.reduce_axis((0, 16), name="k")
    a, b = te.placeholder((8, 16), name="a"), te.placeholder((16, 4), name="b")
    product = te.compute((8, 4), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
    imported = from_tensors([a, b, topi.nn.relu(product)])
    assert [op.name for op in imported.ops.values()] == ["tvm_iree_ext.contraction"]


def test_the_canonical_function_of_an_op_is_the_op():
    op = ext.ops.matmul((4, 8), (8, 4))
    imported = from_functions({"product": op.prim_func()})
    assert list(imported.ops.values()) == [op]


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_reductions_run_on_a_gpu(target):
    x = te.placeholder((3, 40), name="x")
    imported = from_tensors([x, topi.nn.softmax(x)])
    a = normal(3, 40)
    (got,) = simulate_program(imported, target, [a]).check().results
    e = np.exp(a - a.max(-1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True), 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (doubled_in_place, "reads A before it writes it"),
        (nothing, "writes none of its parameters"),
        (counted, "an extent of Out is n, which no operand has"),
    ],
)
def test_says_which_parameter_does_not_fit(function, says):
    with pytest.raises(BuildError, match=says):
        from_functions({"main": function})


def test_says_what_tvm_makes_no_function_of():
    with pytest.raises(BuildError, match="TVM makes no function of the tensors"):
        from_tensors([te.compute((4,), lambda i: te.placeholder((4,), name="x")[i])] * 2)


@T.prim_func(s_tir=True)
def half_written(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.serial(2):
        with T.sblock("half"):
            vi = T.axis.spatial(2, i)
            B[vi] = A[vi]


@T.prim_func(s_tir=True)
def written_where_positive(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.serial(4):
        with T.sblock("where"):
            vi = T.axis.spatial(4, i)
            T.where(A[i] > T.float32(0))
            B[vi] = A[vi]


@T.prim_func(s_tir=True)
def written_before_in_part(A: T.Buffer((4,), "float32")):
    for i in T.serial(1):
        with T.sblock("first"):
            vi = T.axis.spatial(1, i)
            A[vi] = T.float32(0)
    for i in T.serial(3):
        with T.sblock("rest"):
            vi = T.axis.spatial(3, i)
            A[vi + 1] = A[vi + 1] * T.float32(2)


@T.prim_func(s_tir=True)
def bounded(A: T.Buffer((4,), "float32"), n: T.int32, B: T.Buffer((4,), "float32")):
    for i in T.serial(n):
        with T.sblock("bounded"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]


@T.prim_func(s_tir=True)
def of_a_pointer(A: T.handle, B: T.Buffer((4,), "float32")):
    for i in T.serial(4):
        with T.sblock("ones"):
            vi = T.axis.spatial(4, i)
            B[vi] = T.float32(1)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (half_written, "does not write all of B"),
        (written_where_positive, "not loops in order around blocks without a predicate"),
        (written_before_in_part, "reads A before it writes it"),
        (bounded, "n bounds a loop and is no extent of an operand"),
        (of_a_pointer, "A is a pointer"),
    ],
)
def test_results_are_written_whole(function, says):
    with pytest.raises(BuildError, match=says):
        from_functions({"main": function})


def test_an_op_with_its_operands_in_another_order_is_not_that_op(tmp_path):
    made = ext.ops.matmul((4, 4), (4, 4)).prim_func()
    first, second, *rest = made.params
    swapped = tirx.PrimFunc([second, first, *rest], made.body, attrs=made.attrs)
    a, b = normal(4, 4), normal(4, 4)
    got = ext.build(swapped, folder=tmp_path / "p")(b, a)
    np.testing.assert_allclose(got, a @ b, 1e-4, 1e-5)
