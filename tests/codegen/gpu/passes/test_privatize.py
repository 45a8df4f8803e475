"""Fragments become private to a lane, and their loops are unrolled."""

import pytest
import tvm_ffi
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.targets.names import make_target

CDNA = make_target("rocm:gfx942")


def kernel(body, shape=(4, 2, 64, 4), dtype="float32"):
    """``body(A, B, fragment, subgroup, lane)`` in a workgroup of four subgroups."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        a = I.arg("A", I.Buffer((4096,), dtype))
        b = I.arg("B", I.Buffer((4096,), dtype))
        with (
            I.launch_thread("blockIdx.x", 1),
            I.launch_thread("threadIdx.y", 4) as subgroup,
            I.launch_thread("threadIdx.x", 64) as lane,
        ):
            fragment = I.alloc_buffer(shape, dtype, scope="local")
            body(a, b, fragment, subgroup, lane)
    return builder.get()


def allocations(module):
    found = {}
    for func in module.functions.values():
        tvm_ffi.structural_walk(
            func.body,
            (
                tirx.AllocBuffer,
                lambda alloc: found.update({alloc.buffer.name: [*map(int, alloc.buffer.shape)]}),
            ),
        )
    return found


def copied(a, b, fragment, subgroup, lane):
    with I.serial(0, 2) as part, I.serial(0, 4) as r:
        at = [subgroup, part, lane, r]
        I.buffer_store(fragment, a[((subgroup * 2 + part) * 64 + lane) * 4 + r], at)
    with I.serial(0, 2) as part, I.serial(0, 4) as r:
        at = ((subgroup * 2 + part) * 64 + lane) * 4 + r
        I.buffer_store(b, fragment[subgroup, part, lane, r], [at])


def test_thread_dimensions_shrink_to_a_lanes_registers():
    module = lower_device(kernel(copied), CDNA)
    assert list(allocations(module).values()) == [[8]]


def test_its_loops_are_unrolled_so_that_it_is_registers():
    code = compile_device(kernel(copied), CDNA)
    (resources,) = code.resources.values()
    assert (resources.scratch_bytes, resources.spills) == (0, 0)
    assert code.assembly.count("global_store") >= 2
    assert code.launches["main_kernel"].lanes == 256


def test_replicated_lanes_share_a_part():
    def body(a, b, fragment, subgroup, lane):
        I.buffer_store(fragment, a[lane % 16], [subgroup, 0, lane % 16, 0])
        I.buffer_store(b, fragment[subgroup, 0, lane % 16, 0], [lane])

    module = lower_device(kernel(body, shape=(4, 1, 16, 1)), CDNA)
    assert list(allocations(module).values()) == [[1]]


def test_a_lane_that_reads_anothers_part_is_refused():
    def body(a, b, fragment, subgroup, lane):
        I.buffer_store(fragment, a[lane], [subgroup, 0, lane, 0])
        I.buffer_store(b, fragment[subgroup, 0, 63 - lane, 0], [lane])

    with pytest.raises(BuildError, match=r"local buffer .*: lanes add .* to the index of dimen"):
        lower_device(kernel(body), CDNA)


def test_private_buffers_stay():
    def body(a, b, fragment, subgroup, lane):
        with I.serial(0, 3) as r:
            I.buffer_store(fragment, a[lane + r], [0, 0, 0, r])
        I.buffer_store(b, fragment[0, 0, 0, 1], [lane])

    module = lower_device(kernel(body, shape=(1, 1, 1, 3)), CDNA)
    assert list(allocations(module).values()) == [[3]]
