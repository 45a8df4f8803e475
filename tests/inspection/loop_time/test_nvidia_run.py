"""Loops of NVIDIA's whose cycles can be counted by hand."""

import pytest
from sass_lines import sass_line

from tvm_iree_ext.inspection.loop_time.core_run import run_loop
from tvm_iree_ext.inspection.loop_time.nvidia_steps import CopiedBeside, nvidia_steps
from tvm_iree_ext.inspection.loop_time.nvidia_timing import nvidia_timing

AMPERE = nvidia_timing("sm_80")
BACK = sass_line("BRA `(.L_x_1)")  # 12 cycles


def products(count, **schedule):
    return [
        sass_line(f"HMMA.16816.F32 R{at}, R200, R204, R{at}", **(schedule if at == 0 else {}))
        for at in range(0, 4 * count, 4)
    ]


def run(texts, *, workgroups=1, subgroups=4, timing=AMPERE, copies=None, simds=4):
    steps = nvidia_steps(texts, timing, copies)
    return run_loop(steps, timing, subgroups=subgroups, workgroups=workgroups, simds=simds)


def test_products_that_hide_the_branch_take_all_of_the_unit():
    """8 of 8 cycles; the last is issued 7 before its end, and then the branch, which takes 12."""
    alone = run([*products(8), BACK])
    assert alone.cycles == 7 * 8 + 1 + 12
    assert alone.share == pytest.approx(64 / 69)
    assert run([*products(8), BACK], workgroups=2).share == 1.0


def test_a_product_waits_for_the_one_that_it_adds_to():
    """8 cycles of the unit, and 25 until the sum is there."""
    assert run([*products(1), *products(1), BACK]).cycles == 2 * (8 + 25)


def test_a_read_is_waited_for_where_the_word_says_so():
    """4 cycles of 512 bytes, 28 more, the product's issue, the branch."""
    read = sass_line("LDSM.16.M88.4 R200, [R250]", written=0)
    found = run([read, *products(1, waits=(0,)), BACK], subgroups=1)
    assert found.cycles / 4 == 4 + 28 + 1 + 12  # of four schedulers, of which three have nothing
    # Three cycles of the read's own are not waited for: it has been issued before.
    assert found.idle["lds"] > 0.5 / 4
    assert run([read, *products(1), BACK], subgroups=1).cycles / 4 == 8 + 25


def test_the_width_of_shared_memory_bounds_a_loop():
    """4 schedulers' 4 reads of 512 bytes take 64 cycles at 128 bytes each."""
    reads = [sass_line(f"LDSM.16.M88.4 R{at}, [R250]", written=0) for at in (200, 204, 208, 212)]
    found = run([*reads, *products(4), BACK], workgroups=4)
    assert found.lds_bytes == pytest.approx(128, rel=0.02)
    assert found.share == pytest.approx(32 / 64, rel=0.02)


def test_stalls_are_kept():
    stalling = [
        sass_line("IADD3 R251, R252, R253, RZ", 6),
        sass_line("IADD3 R251, R251, R253, RZ", 6),
    ]
    assert run([*products(1), *stalling, BACK]).cycles == max(1 + 6 + 6 + 12, 8 + 25)
    longer = [*stalling, *stalling, *stalling]
    assert run([*products(1), *longer, BACK]).cycles == 1 + 6 * 6 + 12


def test_a_scheduler_issues_one_instruction_in_a_cycle():
    """Of two subgroups, 36 instructions and two branches each; branches wait beside the other's."""
    plain = [sass_line("UIADD3 UR4, UR4, 0x1, URZ")] * 64
    found = run([*products(1), *plain, BACK], workgroups=2)
    assert found.cycles == pytest.approx(66, rel=0.02)
    assert found.idle["issue"] == pytest.approx(1 - 8 / 66, rel=0.02)


def test_functions_take_eight_cycles_of_their_unit():
    slow = [sass_line("MUFU.EX2 R100, R101")] * 16
    assert run([*products(1), *slow, BACK], workgroups=4).cycles == pytest.approx(16 * 8, rel=0.02)


def test_copies_that_are_waited_for_at_once_are_seen():
    copy = [
        sass_line("LDGSTS.E.BYPASS.128 [R250], [R252.64]"),
        sass_line("LDGDEPBAR", written=0),
    ]
    at_once = run([*copy, sass_line("DEPBAR.LE SB0, 0x0"), *products(8), BACK])
    later = run([*copy, sass_line("DEPBAR.LE SB0, 0x1"), *products(8), BACK])
    assert at_once.idle["memory"] > 0.7
    assert at_once.cycles > AMPERE.memory_answer_cycles * 0.75
    assert later.cycles < at_once.cycles


def test_warpgroups_multiply_while_they_do_something_else():
    """128 cycles of products beside 100 of lanes, which are waited for by groups."""
    hopper = nvidia_timing("sm_90a")
    product = sass_line("HGMMA.64x256x16.F32 R24, gdesc[UR8], R24, gsb0")
    lanes = [sass_line("UIADD3 UR4, UR4, 0x1, URZ")] * 80
    wait = sass_line("WARPGROUP.DEPBAR.LE gsb0, 0x0")
    beside = run([product, *lanes, wait, BACK], timing=hopper)
    assert beside.cycles == pytest.approx(128 + 25 + 12 + 1, abs=3)
    before = run([*lanes, product, wait, BACK], timing=hopper)
    assert before.cycles == pytest.approx(beside.cycles + 80, abs=3)


def test_copies_of_others_bound_a_loop():
    """64 bytes a cycle of the second cache: 32 KB for a product of 4 subgroups take 512 cycles."""
    hopper = nvidia_timing("sm_90a")
    product = sass_line("HGMMA.64x256x16.F32 R24, gdesc[UR8], R24")
    found = run([product, BACK], timing=hopper, copies=CopiedBeside(32768, 4, 4, 65536))
    assert found.share == pytest.approx(128 / 512, rel=0.02)
    assert found.memory_bytes == pytest.approx(64, rel=0.02)


def test_products_in_tensor_memory_read_shared_memory_beside_the_copies():
    """128 x 256 x 16 takes 128 cycles; it reads as many bytes as are copied, 12 KB, at 128 bytes a
    cycle."""
    blackwell = nvidia_timing("sm_100a")
    text = "UTCHMMA.128x256x16 gdesc[UR8], gdesc[UR10], tmem[UR7], tmem[UR24], idesc[UR25], UPT"
    alone, beside = (
        run([sass_line(text), BACK], timing=blackwell, subgroups=1, simds=1, copies=copies)
        for copies in (None, CopiedBeside(12288, 1, 1, 65536))
    )
    assert (alone.share, alone.cycles) == (pytest.approx(1, abs=0.01), pytest.approx(128, abs=2))
    assert beside.share == pytest.approx(128 / 192, rel=0.02)


def test_each_workgroup_of_a_pair_multiplies_and_reads_half():
    """Of 256 x 256 x 16: 128 cycles, 8 KB read and 8 KB copied, at 128 bytes a cycle."""
    text = (
        "UTCHMMA.2CTA.256x256x16 gdesc[UR8], gdesc[UR10], tmem[UR7], tmem[UR24], idesc[UR25], UPT"
    )
    copies = CopiedBeside(8192, 1, 1, 65536)
    blackwell = nvidia_timing("sm_100a")
    found = run([sass_line(text), BACK], timing=blackwell, subgroups=1, simds=1, copies=copies)
    assert (found.share, found.memory_bytes) == (
        pytest.approx(1, abs=0.01), pytest.approx(64, rel=0.02),
    )  # fmt: skip
