"""What results may be: exact where nothing is rounded, and within a bound elsewhere."""

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.random_programs.drawing.elementwise import converted
from tvm_iree_ext.random_programs.drawing.oracle import difference
from tvm_iree_ext.random_programs.drawing.table import apply
from tvm_iree_ext.random_programs.drawing.values import BoundedArray, Unsuited, exactly
from tvm_iree_ext.random_programs.drawing.vocabulary import meaning  # noqa: F401  (fills the table)

RNG = np.random.default_rng(0)


def of(array, dtype="float32"):
    return exactly(np.asarray(array), dtype)


def test_sums_of_multiples_of_a_quarter_are_exact_in_any_order():
    total = apply("reduce", [of(RNG.integers(-8, 9, (40, 3)) / 4)], {"kind": "add", "axes": [0]})
    assert not total.error.any()
    assert difference([total], [total.data.astype("float32")]) == ""
    said = difference([total], [np.nextafter(total.data, 99).astype("float32") + 1e-4])
    assert "expected" in said


def test_a_sum_is_exact_only_where_all_partial_sums_are():
    """Multiples of 1/256 add up to a whole number, which says nothing of the sums on the way."""
    x = np.array([5 + 1 / 256, 5 - 1 / 256, 2.0])
    for kind in ("reduce", "scan"):
        said = {"axes": [0]} if kind == "reduce" else {"axis": 0, "reverse": False}
        total = apply(kind, [of(x, "float16")], {"kind": "add", **said})
        assert np.ravel(total.error)[-1] > 0


def test_sums_of_other_numbers_have_a_bound_that_every_order_keeps():
    x = RNG.uniform(-2, 2, 40).astype("float32")
    total = apply("reduce", [of(x)], {"kind": "add", "axes": [0]})
    assert 0 < total.error < 1e-3
    for order in (x, x[::-1], np.sort(x)):
        assert difference([total], [np.cumsum(order, dtype="float32")[-1]]) == ""
    assert difference([total], [np.float32(total.data + 2e-3)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_each_operation_keeps_its_bound_in_its_own_type(dtype):
    """NumPy's own result in the type is a right one."""
    narrow = RNG.uniform(0.25, 2, (2, 50)).astype(getattr(ml_dtypes, dtype, dtype))
    a, b = (of(row.astype("float64"), dtype) for row in narrow)
    x, y = narrow
    results = {
        "add": x + y,
        "sub": x - y,
        "mul": x * y,
        "div": x / y,
        "max": np.maximum(x, y),
    }
    for name, result in results.items():
        assert difference([apply("binary", [a, b], {"function": name})], [result]) == "", name
    for name in ("exp", "log1p", "sqrt", "tanh", "sin"):
        want = apply("unary", [a], {"function": name})
        assert difference([want], [getattr(np, name)(x)]) == "", name
        off = want.data * 1.5
        assert difference([want], [off]), name


def test_what_hangs_on_an_error_is_not_asked():
    near = BoundedArray("float32", np.array([1.0, 2.0]), np.array([1e-6, 0.0]))
    for op, attributes in (
        ("unary", {"function": "floor"}),
        ("convert", {"dtype": "int32"}),
        ("arg_extreme", {"kind": "max", "axis": 0}),
    ):
        further = BoundedArray("float32", near.data + np.array([0.5, 0.25]), near.error)
        apply(op, [further], attributes)
        tie = BoundedArray("float32", np.array([1.0, 1.0]), near.error)
        with pytest.raises(Unsuited):
            apply(op, [tie], attributes)
    with pytest.raises(Unsuited, match="hangs on an error"):
        apply("compare", [near, of([1.0, 0.0])], {"direction": "LT"})


def test_what_overflows_is_not_asked():
    with pytest.raises(Unsuited, match="too large"):
        apply("binary", [of([300.0], "float16")] * 2, {"function": "mul"})
    with pytest.raises(Unsuited, match="out of its range"):
        apply("unary", [of([80.0])], {"function": "exp"})
    with pytest.raises(Unsuited, match="beyond the integer"):
        converted(of([200.0]), "int8")


def test_integers_wrap_and_are_exact():
    total = apply("binary", [of([100, -128], "int8"), of([100, -1], "int8")], {"function": "add"})
    assert total.data.tolist() == [-56, 127]
    assert difference([total], [np.array([-56, 127], "int8")]) == ""
    assert difference([total], [np.array([200, 127], "uint8")]) == ""  # MLIR's have no sign
    assert "1 of 2 are wrong" in difference([total], [np.array([-56, 126], "int8")])


def test_a_difference_names_the_first_wrong_element():
    want = [of([[1.0, 2.0], [3.0, 4.0]])]
    said = difference(want, [np.array([[1.0, 2.0], [3.5, np.nan]])])
    assert said == (
        "result 0[1, 0] of float32[2, 2] is 3.5; expected 3.0 within 0; 2 of 4 are wrong"
    )
    assert "shape" in difference(want, [np.zeros(4)])
    assert "0 results; expected 1" in difference(want, [])
