import pytest
from tvm.script import tirx as T

from tvm_iree_ext.tir.tensor_scalars import tensor_scalars, with_tensor_scalars


@T.prim_func(s_tir=True)
def scaled(a: T.Buffer((8,), "float32"), factor: T.float64, shift: T.int64,
           out: T.Buffer((8,), "float32")):  # fmt: skip
    for i in T.serial(8):
        with T.sblock("scaled"):
            vi = T.axis.spatial(8, i)
            out[vi] = a[vi] * T.Cast("float32", factor) + T.Cast("float32", shift)


def test_some_scalars_become_tensors_of_rank_0():
    made = with_tensor_scalars(scaled, {"factor": "float32"})
    assert [one.name for one in made.params] == ["a", "factor", "shift", "out"]
    assert [len(getattr(one.ty, "shape", [None])) for one in made.params] == [1, 0, 1, 1]
    assert str(made.params[1].ty.dtype) == "float32"
    assert tensor_scalars(made) == {"factor": "float32"}


def test_a_function_without_them_stays():
    assert with_tensor_scalars(scaled, {}) is scaled
    assert tensor_scalars(scaled) == {}


@pytest.mark.parametrize("name", ["a", "nothing"])
def test_what_is_no_scalar_stays(name):
    made = with_tensor_scalars(scaled, {name: "float32"})
    assert [one.name for one in made.params] == ["a", "factor", "shift", "out"]
    assert str(made.params[1].ty.dtype) == "float64"
