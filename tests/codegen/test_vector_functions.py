"""Functions of each element stay one operator in a vectorized loop: no loop over lanes is left."""

import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen.double_functions import leave_many_to_library
from tvm_iree_ext.codegen.vector_functions import name_vector_functions
from tvm_iree_ext.codegen.vector_math import lower_vector_math

ONE = ("acosh", "asinh", "erf", "log1p", "nearbyint", "rsqrt", "exp")


@pytest.mark.parametrize("name", [*ONE, "copysign"])
def test_it_is_computed_of_vectors(name):
    function = getattr(tirx, name)
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        x, y, z = (I.arg(one, I.buffer((8,), "float32", align=4)) for one in "xyz")
        with I.vectorized(0, 8) as lane:
            numbers = [x[lane]] if name in ONE else [x[lane], y[lane]]
            I.buffer_store(z, function(*numbers), [lane])
    mod = tirx.transform.BindTarget(tvm.target.Target("llvm"))(
        tvm.IRModule({"main": builder.get()})
    )
    mod = tirx.transform.VectorizeLoop(True)(name_vector_functions(mod))
    loops = []
    tvm_ffi.structural_walk(mod["main"].body, (tirx.For, loops.append))
    assert not loops


@pytest.mark.parametrize(("calls", "is_left"), [(4, False), (40, True)])
def test_many_functions_of_float64_are_left_to_the_library(calls, is_left):
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        x = I.arg("x", I.buffer((calls,), "float64", align=8))
        for place in range(calls):
            I.buffer_store(x, tirx.sin(x[place]), [place])
    target = tvm.target.Target("llvm")
    mod = tirx.transform.BindTarget(target)(tvm.IRModule({"main": builder.get()}))
    mod = lower_vector_math(name_vector_functions(leave_many_to_library(mod)))
    called = []
    tvm_ffi.structural_walk(mod["main"].body, (tvm.ir.Call, lambda call: called.append(call.op)))
    sines = [op for op in called if getattr(op, "name", "") == "tirx.sin"]
    polynomials = [op for op in called if getattr(op, "name", "") == "tirx.reinterpret"]
    assert not sines
    assert bool(polynomials) is not is_left
