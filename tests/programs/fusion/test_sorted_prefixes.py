"""Sorts of which the first elements are read are top-k ops, where that gives the same."""

import numpy as np
import pytest
from tvm import relax

import tvm_iree_ext as ext
from tvm_iree_ext.base.dtypes import numpy_dtype


def built(shape, dtype, compute, folder):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x], attrs={"global_symbol": "main"}):
        with builder.dataflow():
            result = builder.emit_output(compute(builder, x))
        builder.emit_func_output(result)
    return ext.build(builder.get(), folder=folder)


def ops_of(program):
    return [
        kernel.computes for kernel in program.manifest.kernels if "linalg_ext" in kernel.computes
    ]


def first(x, k, axis, largest):
    """The stable order's first places, and what stands there."""
    keys = -x.astype("float64") if largest else x
    places = np.argsort(keys, axis=axis, kind="stable").take(range(k), axis=axis)
    return np.take_along_axis(x, places, axis), places


@pytest.mark.costly
@pytest.mark.parametrize(("axis", "shape"), [(-1, (3, 40)), (0, (40, 3)), (1, (2, 40, 3))])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("gives", ["both", "values", "indices"])
def test_the_first_of_a_sort_are_a_topk(axis, shape, largest, gives, tmp_path):
    def compute(_, x):
        return relax.op.topk(x, 7, axis, gives, largest, "int64")

    x = np.random.default_rng(0).integers(-6, 6, shape).astype("int32")
    x.flat[:2] = np.iinfo("int32").min, np.iinfo("int32").max
    program = built(shape, "int32", compute, tmp_path / "p")
    assert ops_of(program) == ["iree_linalg_ext.topk"]
    results = program(x)
    values, places = first(x, 7, axis, largest)
    wanted = {"both": (values, places), "values": (values,), "indices": (places,)}[gives]
    for result, want in zip(results if gives == "both" else (results,), wanted, strict=True):
        np.testing.assert_array_equal(result, want)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("largest", [True, False])
def test_those_of_floats_are_a_topk_of_ordered_integers(dtype, largest, tmp_path):
    """NaN is the largest, zeros are equal, and what is given are the very elements."""
    x = np.random.default_rng(0).integers(-4, 4, (6, 40)).astype(numpy_dtype(dtype))
    x[0, ::3], x[1, ::2], x[2] = np.nan, -np.nan, -0.0
    x[2, ::2], x[3, :2], x[4, 4:9] = 0.0, (np.inf, -np.inf), np.nextafter(0, 1, dtype="float32")
    program = built(x.shape, dtype, lambda _, y: relax.op.topk(y, 7, largest=largest), tmp_path)
    assert ops_of(program) == ["iree_linalg_ext.topk"]
    values, places = program(x)
    with np.errstate(invalid="ignore"):
        ranks = np.nan_to_num(x.astype("float64"), nan=9e99, posinf=8e99, neginf=-8e99)
    np.testing.assert_array_equal(places, first(ranks, 7, -1, largest)[1])
    wanted = np.take_along_axis(x, places, -1)
    assert values.tobytes() == wanted.tobytes()


def test_many_of_a_sort_stay_sorted(tmp_path):
    x = np.random.default_rng(0).permutation(40).astype("int32")[None]
    program = built(x.shape, "int32", lambda _, y: relax.op.topk(y, 11), tmp_path / "p")
    assert ops_of(program) == ["iree_linalg_ext.sort"]
    for result, want in zip(program(x), first(x, 11, -1, True), strict=True):
        np.testing.assert_array_equal(result, want)


def test_a_sort_that_is_read_as_a_whole_too_stays_one(tmp_path):
    def compute(builder, x):
        ordered = builder.emit(relax.op.sort(x, -1))
        return relax.Tuple([ordered, relax.op.strided_slice(ordered, [1], [0], [5])])

    x = np.random.default_rng(0).permutation(40).astype("int32")[None]
    program = built(x.shape, "int32", compute, tmp_path / "p")
    assert ops_of(program) == ["iree_linalg_ext.sort"]
    whole, part = program(x)
    np.testing.assert_array_equal(whole, np.sort(x))
    np.testing.assert_array_equal(part, np.sort(x)[:, :5])


def test_parts_of_several_lengths_stay_sorted(tmp_path):
    def compute(builder, x):
        ordered = builder.emit(relax.op.sort(x, -1))
        ends = (relax.op.strided_slice(ordered, [1], [0], [end]) for end in (5, 6))
        return relax.Tuple([builder.emit(end) for end in ends])

    x = np.random.default_rng(0).permutation(40).astype("int32")[None]
    program = built(x.shape, "int32", compute, tmp_path / "p")
    assert ops_of(program) == ["iree_linalg_ext.sort"]
    for result, end in zip(program(x), (5, 6), strict=True):
        np.testing.assert_array_equal(result, np.sort(x)[:, :end])


def test_a_part_that_begins_later_is_none_of_the_first(tmp_path):
    def compute(builder, x):
        ordered = builder.emit(relax.op.sort(x, -1))
        return relax.op.strided_slice(ordered, [1], [3], [8])

    x = np.random.default_rng(0).permutation(40).astype("int32")[None]
    program = built(x.shape, "int32", compute, tmp_path / "p")
    np.testing.assert_array_equal(program(x), np.sort(x)[:, 3:8])
