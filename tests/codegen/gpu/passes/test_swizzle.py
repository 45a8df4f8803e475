"""Swizzled tiles: every element is where it was looked for, and descriptors keep their pointers."""

import operator
from types import SimpleNamespace

import numpy as np
import pytest
import tvm_ffi
from tvm import IRModule, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.codegen.gpu.passes.swizzle import swizzle_shared
from tvm_iree_ext.intrin.kernel_attributes import with_swizzles
from tvm_iree_ext.layout.analysis import Placement, Swizzle
from tvm_iree_ext.targets.names import make_target

TVMSCRIPT = SimpleNamespace(
    FloorDiv=operator.floordiv, FloorMod=operator.mod, BitwiseXor=operator.xor
)


def kernel(width=32, lanes=8, rows=64):
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        a = I.arg("A", I.Buffer((rows, width), "float16"))
        with I.launch_thread("blockIdx.x", 1), I.launch_thread("threadIdx.x", rows) as lane:
            tile = I.alloc_buffer((rows, width), "float16", scope="shared")
            with I.serial(0, width // lanes) as part:
                at = part * lanes
                ramp = tirx.Ramp(at, tirx.const(1, "int32"), lanes) if lanes > 1 else at
                I.buffer_store(tile, a[lane, ramp], [lane, ramp])
    return builder.get()


def stores(func):
    found = []
    tvm_ffi.structural_walk(
        func.body,
        (
            tirx.BufferStore,
            lambda store: found.append(store) if store.buffer.scope() == "shared" else None,
        ),
    )
    return found


def name_of_tile(func):
    names = []
    tvm_ffi.structural_walk(
        func.body, (tirx.AllocBuffer, lambda alloc: names.append(alloc.buffer.name))
    )
    return names[0]


def run(func):
    """The pass on one function."""
    return swizzle_shared(IRModule({"main": func}))["main"]


@pytest.mark.parametrize(
    "swizzle",
    [Swizzle(32, 8, 2), Swizzle(16, 8, 4), Swizzle(32, 4, 1), Swizzle(64, 8), Swizzle(128, 4, 2)],
)
def test_elements_lie_where_the_placement_says(swizzle):
    func = kernel(lanes=4)
    name = name_of_tile(func)
    swizzled = run(with_swizzles(func, {name: swizzle}))
    (store,) = stores(swizzled)
    indices, threads = (store.indices[0], store.indices[1].base), lane_variables(swizzled)
    placement = Placement((64, 32), 1, swizzle=swizzle)
    for lane in range(0, 64, 5):
        for part in range(8):
            row, column = (
                eval(str(with_values(index, threads, lane, part)), {"T": TVMSCRIPT})
                for index in indices  # as TVMScript prints them
            )
            assert row * 32 + column == placement.addresses(np.array([lane, part * 4]))


def lane_variables(func):
    found = []
    tvm_ffi.structural_walk(
        func.body,
        (
            tirx.AttrStmt,
            lambda attr: found.append(attr.node.var) if attr.attr_key == "thread_extent" else None,
        ),
    )
    return found


def with_values(base, threads, lane, part):
    """The expression with numbers for its variables."""

    def number(var):
        is_lane = any(var.same_as(thread) for thread in threads)
        return tirx.const(lane if is_lane else part, "int32")

    found = tvm_ffi.structural_map(base, (tirx.Var, number))
    assert not tirx.analysis.undefined_vars(found)
    return found


def test_the_buffer_is_aligned_to_its_pattern():
    func = kernel(width=64)
    swizzled = run(with_swizzles(func, {name_of_tile(func): Swizzle(64, 8, 1)}))
    (store,) = stores(swizzled)
    assert int(store.buffer.data_alignment) == 1024


@pytest.mark.parametrize(
    ("func", "swizzle", "message"),
    [
        (kernel(lanes=16), Swizzle(32, 8, 2), "accessed by 16 elements .*; its columns have 8"),
        (kernel(), Swizzle(48, 8, 1), "has 32 elements in its last dimension; rows of 48"),
        (kernel(48), Swizzle(48, 8, 1), "rows of 48 must be a power of two of columns of 8"),
        (kernel(rows=48), Swizzle(96, 8, 1), "rows of 96 must be a power of two of columns of 8"),
        (kernel(16, rows=48), Swizzle(48, 6, 1), "columns of 6, which divide both"),
    ],
)
def test_swizzles_that_do_not_fit_are_refused(func, swizzle, message):
    with pytest.raises(BuildError, match=message):
        lower_device(with_swizzles(func, {name_of_tile(func): swizzle}), make_target("cuda:sm_80"))


def test_a_name_that_is_not_there_is_refused():
    func = with_swizzles(kernel(), {"nowhere": Swizzle(32, 8, 2)})
    with pytest.raises(BuildError, match="no shared buffer is named nowhere"):
        lower_device(func, make_target("cuda:sm_80"))


def test_other_functions_stay():
    func = kernel()
    assert run(func).body.same_as(func.body)
