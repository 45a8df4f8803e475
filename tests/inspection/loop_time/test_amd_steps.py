"""What instructions of AMD's assembly occupy, need and make."""

import pytest

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.inspection.loop_time.amd_steps import amd_steps
from tvm_iree_ext.inspection.loop_time.amd_timing import amd_timing
from tvm_iree_ext.inspection.loop_time.loop_steps import BRANCH, LDS, MATRIX, SCALAR


def step(text, chip="gfx942", lanes=64):
    (found,) = amd_steps([text], amd_timing(chip), lanes)
    return found


def counter(*given):
    ((name, _),) = step(*given).counters
    return name


def lanes_of(*numbers):
    return frozenset(("v", number) for number in numbers)


def test_a_product_reads_two_and_adds_to_one():
    found = step("v_mfma_f32_16x16x16_f16 a[0:3], v[8:9], v[10:11], a[4:7]")
    assert (found.unit, found.cycles) == (MATRIX, 16)
    assert found.reads == lanes_of(8, 9, 10, 11)
    assert found.writes == frozenset(("a", at) for at in range(4))
    assert found.adds == frozenset(("a", at) for at in range(4, 8))
    sparse = step("v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v10")
    assert (sparse.adds, sparse.reads) == (lanes_of(0, 1, 2, 3), lanes_of(*range(4, 11)))


def test_shared_memory_sends_addresses_with_what_is_written():
    """ "ROCm Compute Profiler", LDS: 64 lanes that store 4 bytes each take 8 cycles."""
    assert step("ds_write_b32 v0, v1 offset:16").cycles == 8
    assert step("ds_write_b128 v0, v[4:7]").cycles == 20
    read = step("ds_read_b128 v[4:7], v0 offset:16")
    assert (read.unit, read.cycles, read.bytes, read.writes) == (
        LDS,
        16,
        1024,
        lanes_of(4, 5, 6, 7),
    )
    assert step("ds_read2_b64 v[4:7], v0 offset1:8").bytes == 1024
    assert step("ds_read_b128 v[4:7], v0", "gfx950").cycles == 8


def test_memory_that_goes_past_the_registers_makes_none():
    assert step("buffer_load_dword v1, s[0:3], 0 offen lds").writes == frozenset()
    assert step("global_load_lds_dwordx4 v[0:1], off").writes == frozenset()
    assert counter("global_store_dwordx4 v[0:1], v[4:7], off") == "memory"
    assert counter("global_store_b128 v[0:1], v[4:7], off", "gfx1100", 32) == "store"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("s_waitcnt vmcnt(3) lgkmcnt(0)", {"memory": 3, "lds": 0}),
        ("s_wait_dscnt 0x2", {"lds": 2}),
        ("s_wait_loadcnt_dscnt 0x103", {"memory": 1, "lds": 3}),
        ("s_waitcnt_vscnt null, 0x0", {"store": 0}),
    ],
)
def test_waits_say_how_many_are_left(text, left):
    assert dict(step(text).left) == left


def test_the_last_branch_is_the_loop():
    units = [
        one.unit
        for one in amd_steps(
            ["s_cbranch_execz .LBB0_3", "s_nop 0", "s_cbranch_scc1 .LBB0_1"],
            amd_timing("gfx942"),
            64,
        )
    ]
    assert (units[0], units[-1]) == (SCALAR, BRANCH)


def test_an_unknown_product_is_refused():
    with pytest.raises(TargetError, match="v_mfma_f32_64x64x4_f16: its cycles are not known"):
        step("v_mfma_f32_64x64x4_f16 v[0:3], v[4:5], v[6:7], v[0:3]")
