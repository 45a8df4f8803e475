"""Loads and barriers of AMD's GPUs: the same addresses, in parts, and waits that barriers need."""

import re

import pytest
import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.gpu.passes.amd_memory import _Rewriter
from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_blocks import MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import MatmulConfig
from tvm_iree_ext.targets.names import make_target

KINDS = {
    "gfx942": "MFMA_F32_16x16x16_F16",
    "gfx1100": "WMMAR3_F32_16x16x16_F16",
    "gfx1201": "WMMAR4_F32_16x16x16_F16",
}
BLOCK, THREAD, SUBGROUP, STEP = (tirx.Var(name, "int32") for name in "btsk")


def rewriter(lanes=64, chip="gfx942"):
    """Of a kernel with four subgroups of ``lanes``, and a loop of 8 steps."""
    body = tirx.For(STEP, 0, 8, tirx.ForKind.SERIAL, tirx.Evaluate(0))
    tags = (("threadIdx.x", THREAD, lanes), ("threadIdx.y", SUBGROUP, 4), ("blockIdx.x", BLOCK, 16))
    for tag, var, extent in tags:
        place = tirx.IterVar((0, extent), var, 1, tag)
        body = tirx.AttrStmt(place, "thread_extent", extent, body)
    made = _Rewriter(tirx.PrimFunc([], body), make_target(f"rocm:{chip}"))
    made.rewritten()
    return made


def used(value):
    return {str(var.name) for var in tirx.analysis.undefined_vars(tirx.Evaluate(value), [])}


@pytest.mark.parametrize(
    ("index", "shared", "lane"),
    [
        (BLOCK * 4096 + THREAD, {"b"}, {"t"}),
        (BLOCK * 4096 + SUBGROUP * 512 + STEP * 64 + THREAD % 8 * 8 + 4096, {"b", "s", "k"}, {"t"}),
        ((BLOCK * 16 + THREAD // 8) * 512 + STEP * 64, {"b", "k"}, {"t"}),
        ((BLOCK * 16 + SUBGROUP) * 512 - (STEP - 8) * 64, {"b", "s", "k"}, set()),
        (THREAD * 4, set(), {"t"}),
    ],
)
def test_an_address_is_the_sum_of_its_parts(index, shared, lane):
    made = rewriter()
    address = made.address(index, 2)
    assert used(address.lane) == lane
    assert used(address.shared) <= shared
    whole = address.shared * 2 + address.lane
    assert made.analyzer.can_prove_equal(whole, index * 2)


@pytest.mark.parametrize("rows", [1, 7, 40, 64])
def test_rows_beyond_the_last_are_the_last_in_two_parts(rows):
    """The subgroup's first row, or the last where that is before it, and what a lane adds."""
    made, count = rewriter(), tirx.Var("n", "int32")
    row = tirx.min(BLOCK * 16 + SUBGROUP * 4 + THREAD // 16 + 3, count - 1)
    index = row * 512 + STEP * 64 + THREAD % 16 * 4
    address = made.address(index, 2, is_wide=True)
    assert used(address.shared) == {"b", "s", "k", "n"}
    for block, subgroup, thread in ((0, 0, 0), (0, 3, 63), (1, 2, 17), (3, 3, 63)):
        numbers = {count: rows, BLOCK: block, SUBGROUP: subgroup, THREAD: thread, STEP: 5}

        def value(expression, numbers=numbers):
            constants = {var: tirx.const(number, "int32") for var, number in numbers.items()}
            return int(made.analyzer.simplify(substituted(expression, constants)))

        assert value(address.shared) * 2 + value(address.lane) == value(index) * 2
        assert 0 <= value(address.lane) < 2 * (512 * 7 + 64)


def substituted(expression, constants):
    by_name = {var.name: number for var, number in constants.items()}
    return tvm_ffi.structural_map(expression, (ir.Var, lambda var: by_name[var.name]))


def test_what_may_be_negative_stays_as_it_is():
    made = rewriter()
    assert made.address(THREAD - STEP, 2) is None
    assert made.address(BLOCK * 8 + THREAD * tirx.Var("n", "int32"), 2) is None


def test_a_vector_of_places_stays_as_it_is():
    """As of a bias that the elements of a run may have one each, or share."""
    memory = tirx.decl_buffer((4096,), "float32")
    load = memory[tirx.Broadcast(THREAD * 4, 4)]
    assert rewriter()._load(load) is load


def test_a_number_below_0_is_before_the_buffer():
    made = rewriter()
    address = made.address(BLOCK * 64 + THREAD - 5, 2)
    assert (used(address.shared), used(address.lane), address.first) == ({"b"}, {"t"}, 5)
    whole = address.shared * 2 + address.lane - 10
    assert made.analyzer.can_prove_equal(whole, (BLOCK * 64 + THREAD - 5) * 2)


def test_wide_indices_become_offsets_of_32_bits():
    wide = tirx.Cast("int64", BLOCK) * tirx.const(4096, "int64") + tirx.Cast("int64", THREAD)
    address = rewriter().address(wide, 2)
    assert used(address.shared) == {"b"}
    assert used(address.lane) == {"t"}
    assert str(address.lane.ty.dtype) == "int32"


def test_subgroups_across_rows_of_lanes_are_lanes_own():
    """16 lanes along x: a subgroup has four rows, and ``threadIdx.y`` is not the same for all."""
    address = rewriter(lanes=16).address(SUBGROUP * 512 + BLOCK, 2)
    assert (used(address.shared), used(address.lane)) == ({"b"}, {"s"})


@pytest.mark.parametrize("chip", KINDS)
def test_loads_need_no_arithmetic_and_barriers_wait(chip):
    target = make_target(f"rocm:{chip}")
    shape = MatmulShape(512, 512, 512, "float16", "float16", "float32", rhs_order=(1, 0))
    config = MatmulConfig(KINDS[chip], tiles=(2, 2), k_tiles=2, stages=2)
    code = compile_device(schedule_matmul(shape, target, config), target)
    hot = code.instructions("matmul_kernel").hot_loop
    assert (hot.vector, hot.shuffles, hot.scratch) == (0, 0, 0)
    assert "buffer_load" in code.assembly
    # What a subgroup wrote to shared memory is there before others pass the barrier.
    lines = [line.strip() for line in code.assembly.splitlines()]
    for at, line in enumerate(lines):
        if re.match(r"s_barrier(_signal)?\b", line):
            before = [one for one in lines[:at] if one.startswith(("ds_", "s_wait"))]
            last = before[-1] if before else "s_wait"
            assert not last.startswith(("ds_store", "ds_write")), (at, last)


def test_loads_beyond_4_gib_have_addresses_of_64_bits():
    """Rows of 2 ** 17 elements: what lanes share no longer fits in 32 bits."""
    target = make_target("rocm:gfx942")
    shape = MatmulShape(1 << 17, 256, 1 << 17, "float16", "float16", "float32", rhs_order=(1, 0))
    config = MatmulConfig(KINDS["gfx942"], tiles=(2, 2), k_tiles=2, stages=2)
    code = compile_device(schedule_matmul(shape, target, config), target)
    assert code.resources["matmul_kernel"].spills == 0


@pytest.mark.costly
@pytest.mark.parametrize("chip", KINDS)
def test_what_was_loaded_is_waited_for_once(chip):
    """Four loads go to shared memory behind a barrier, one step after they began."""
    target = make_target(f"rocm:{chip}")
    shape = MatmulShape(512, 512, 512, "float16", "float16", "float32", rhs_order=(1, 0))
    config = MatmulConfig(KINDS[chip], tiles=(2, 2), k_tiles=4, stages=2)
    code = compile_device(schedule_matmul(shape, target, config), target)
    hot = code.assembly.partition(".LBB0_1:")[2].partition("s_cbranch")[0]
    assert len(re.findall(r"s_wait(cnt vmcnt\(|_loadcnt)", hot)) == 1
    assert len(re.findall(r"ds_(store|write)(_b128|2_b64|_2addr_b64)", hot)) >= 4
