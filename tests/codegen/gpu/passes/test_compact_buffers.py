"""Which buffers are cut to what is accessed."""

import pytest
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen.gpu.passes.compact_buffers import compact_buffers
from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS


def allocated(func):
    blocks = []
    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, blocks.append))
    return [int(buffer.shape[0]) for block in blocks for buffer in block.alloc_buffers]


@pytest.mark.parametrize(("attrs", "elements"), [({}, 1), ({EXACT_BUFFERS: True}, 8)])
def test_buffers_of_kernels_that_say_that_they_are_exact_are_left_alone(attrs, elements):
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_attr(attrs)
        with I.sblock("root"):
            cells = I.sblock_alloc_buffer((8,), "int32", scope="local")
            I.buffer_store(cells, tirx.const(0, "int32"), [3])
    mod = compact_buffers(ir.IRModule({"main": builder.get()}))
    assert allocated(mod["main"]) == [elements]
