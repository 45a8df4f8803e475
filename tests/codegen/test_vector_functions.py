"""Functions of each element stay one operator in a vectorized loop: no loop over lanes is left."""

import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen.vector_functions import name_vector_functions

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
