"""Loops of AMD's whose cycles can be counted by hand."""

import pytest

from tvm_iree_ext.inspection.loop_time.amd_steps import amd_steps
from tvm_iree_ext.inspection.loop_time.amd_timing import amd_timing
from tvm_iree_ext.inspection.loop_time.core_run import run_loop

CDNA3 = amd_timing("gfx942")
PRODUCT = "v_mfma_f32_16x16x16_f16 v[{0}:{1}], v[64:65], v[66:67], v[{0}:{1}]"  # 16 cycles
BACK = "s_cbranch_scc1 .LBB0_1"  # 32 cycles where it is taken


def products(count, first=0):
    return [PRODUCT.format(at, at + 3) for at in range(first, first + 4 * count, 4)]


def run(texts, *, workgroups=1, subgroups=4, timing=CDNA3):
    steps = amd_steps(texts, timing, 64)
    return run_loop(steps, timing, subgroups=subgroups, workgroups=workgroups, simds=4)


def test_products_that_hide_the_branch_take_all_of_the_unit():
    """Of 4 products the last has 12 cycles left beside the branch, which takes 32."""
    alone = run([*products(4), BACK])
    assert alone.cycles == 64 + 32 - 12
    assert alone.share == pytest.approx(64 / 84)
    assert run([*products(4), BACK], workgroups=2).share == 1.0


def test_a_subgroup_alone_waits_for_all_of_a_read():
    """1024 bytes by 64 a cycle, 64 cycles more, turns of wait and branch around 8 products, back.

    The second scheduler of a port has its turn later, and then stays as far behind.
    """
    loop = ["ds_read_b128 v[64:67], v70", "s_waitcnt lgkmcnt(0)", *products(8), BACK]
    alone = run(loop)
    assert alone.cycles == (16 + 64) + 4 + 7 * 16 + 4 + 32
    assert alone.share == pytest.approx(8 * 16 / alone.cycles)
    assert alone.idle["lds"] == pytest.approx((16 + 64 - 4) / alone.cycles)
    assert alone.lds_bytes == pytest.approx(4 * 1024 / alone.cycles)
    both = run(loop, workgroups=2)
    assert (alone.subgroups, both.subgroups) == (1, 2)
    assert alone.share + 0.2 < both.share < run(loop, workgroups=3).share


def test_a_read_one_step_ahead_is_hidden():
    """Two sets of registers: each is read while the products of the other are issued."""
    ahead = [
        "ds_read_b128 v[64:67], v70", "s_waitcnt lgkmcnt(1)", *products(8),
        "ds_read_b128 v[72:75], v70", "s_waitcnt lgkmcnt(1)", *products(8), BACK,
    ]  # fmt: skip
    assert run(ahead).share == pytest.approx(256 / (256 + 20), abs=0.05)
    assert run(ahead).idle["lds"] == 0


def test_the_width_of_shared_memory_bounds_a_loop():
    """A port gives 64 bytes a cycle: 2 schedulers' 4 reads of 1024 bytes take 128 cycles."""
    reads = [f"ds_read_b128 v[{at}:{at + 3}], v70" for at in (80, 84, 88, 92)]
    found = run([*reads, *products(4), BACK], workgroups=4)
    assert found.lds_bytes == pytest.approx(128, rel=0.05)
    assert found.share == pytest.approx(64 / 128, rel=0.05)
    # Twice the width of gfx950 leaves the products in front.
    assert run([*reads, *products(4), BACK], workgroups=4, timing=amd_timing("gfx950")).share > 0.9


def test_memory_that_is_waited_for_at_once_is_seen():
    loop = ["buffer_load_dwordx4 v[80:83], v70, s[0:3], 0 offen", "s_waitcnt vmcnt(0)"]
    found = run([*loop, *products(8), BACK])
    assert found.idle["memory"] > 0.7
    assert found.cycles > CDNA3.memory_answer_cycles
    later = run([loop[0], *products(8), "s_waitcnt vmcnt(1)", BACK])
    assert later.idle["memory"] < found.idle["memory"]


def test_a_barrier_waits_for_the_slowest():
    """Two subgroups of a workgroup on one scheduler, and one on each of the others."""
    found = run([*products(4), "s_barrier", BACK], subgroups=5)
    assert found.idle["barrier"] > 0.2
    assert run([*products(4), BACK], subgroups=5).idle["barrier"] == 0


def test_a_result_of_products_is_there_after_their_passes():
    """4 passes and 3 more of 4 cycles, for what does not add to it."""
    loop = [*products(1), "v_add_f32_e32 v80, v0, v81", BACK]
    found = run(loop)
    assert found.cycles == 16 + 12 + 4 + 32
    # A sum that goes on from the last one does not wait beyond the unit.
    assert run([*products(1), *products(1), BACK]).cycles == 2 * 16 + 32 - 12


def test_a_pause_and_a_slow_function_take_their_cycles():
    assert run([*products(1), "s_nop 7", BACK]).cycles == 4 + 32 + 32
    assert run([*products(1), *["v_exp_f32_e32 v80, v81"] * 4, BACK]).cycles == 4 + 3 * 16 + 4 + 32


def test_products_of_rdna_keep_the_vector_unit():
    timing = amd_timing("gfx1100")
    product = "v_wmma_f32_16x16x16_f16 v[0:7], v[64:71], v[72:79], v[0:7]"
    alone = run([product, "v_mov_b32_e32 v90, v91", BACK], workgroups=4, timing=timing)
    assert 0.9 < alone.share < 32 / 33 + 0.005


def test_priority_goes_first():
    """Both workgroups want the unit; the one that raised its priority gets it."""
    loop = ["s_setprio 1", *products(4), "s_setprio 0", BACK]
    assert run(loop, workgroups=2).share == pytest.approx(run(loop, workgroups=2).share)
    assert run(loop, workgroups=2).share > 0.98
