from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.tir.function_body import with_body


def test_a_function_with_the_body_that_it_has_is_itself():
    with IRBuilder() as builder, I.prim_func():
        I.evaluate(tirx.const(1, "int32"))
    function = builder.get()
    assert with_body(function, function.body).same_as(function)
    other = tirx.Evaluate(tirx.const(2, "int32"))
    assert with_body(function, other).body.same_as(other)
