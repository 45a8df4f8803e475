import numpy as np
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.targets.names import make_target


def test_a_loops_variable_as_a_float_may_be_bound():
    """TVM asks which integers it may be."""
    with IRBuilder() as built, I.prim_func(s_tir=True):
        I.func_name("main")
        x = I.arg("x", I.buffer((6,), "float32"))
        out = I.arg("out", I.buffer((3, 4), "float32"))
        with I.grid(tirx.const(3, "int64"), tirx.const(4, "int64")) as (i, j), I.sblock("square"):
            row, column = I.axis.spatial(3, i), I.axis.spatial(4, j)
            first, second = tirx.Var("first", "float32"), tirx.Var("second", "float32")
            value = first + first * tirx.Cast("float32", row + column)
            inner = tirx.Let(second, value, second * second)
            I.buffer_store(out, tirx.Let(first, x[row + column], inner), [row, column])
    cpu_pipeline.register()
    library = tvm.compile(
        tvm.IRModule({"main": built.get()}),
        target=make_target("llvm"),
        tir_pipeline=cpu_pipeline.CPU_PIPELINE,
    )
    x, found = np.arange(6, dtype="float32"), np.zeros((3, 4), "float32")
    library["main"](x, found)
    places = np.add.outer(np.arange(3), np.arange(4))
    np.testing.assert_array_equal(found, (x[places] * (1 + places)) ** 2)
