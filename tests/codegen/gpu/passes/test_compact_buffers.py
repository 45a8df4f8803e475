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


def test_shared_memory_of_rows_known_at_the_call_only_has_their_most():
    """A tile of 24 rows, of a buffer that is padded to as many as the call has."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        rows = I.int64()
        IRBuilder.name("rows", rows)
        target = I.arg("target", I.buffer((rows, 4), "int32"))
        with I.sblock("root"):
            tile = I.sblock_alloc_buffer((rows, 4), "int32", scope="shared")
            own = I.sblock_alloc_buffer((rows, 4), "int32", scope="local")
            for buffer in (tile, own):
                with I.serial(0, 24) as row, I.If(row < rows), I.Then():
                    I.buffer_store(buffer, tirx.const(1, "int32"), [row, 2])
            with I.serial(0, 24) as row, I.If(row < rows), I.Then():
                I.buffer_store(target, tile[row, 2] + own[row, 2], [row, 2])
    mod = compact_buffers(ir.IRModule({"main": builder.get()}))
    blocks, loads = [], []
    rules = [(s_tir.SBlock, blocks.append), (ir.TensorLoad, loads.append)]
    tvm_ffi.structural_walk(mod["main"].body, rules)
    buffers = {b.scope(): b for block in blocks for b in block.alloc_buffers}
    assert int(buffers["shared"].shape[0]) == 24
    assert isinstance(buffers["local"].shape[0], tirx.Min)
    assert {load.source for load in loads} == {*buffers.values()}
