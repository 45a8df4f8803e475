"""What instructions of SASS occupy, wait for and set."""

import pytest
from sass_lines import sass_line

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.inspection.loop_time.loop_steps import (
    BARRIER,
    BRANCH,
    LDS,
    MATRIX,
    MEMORY,
    SCALAR,
    WAIT,
)
from tvm_iree_ext.inspection.loop_time.nvidia_steps import CopiedBeside, nvidia_steps
from tvm_iree_ext.inspection.loop_time.nvidia_timing import nvidia_timing


def step(text, *given, chip="sm_80", **schedule):
    (found,) = nvidia_steps([sass_line(text, *given, **schedule)], nvidia_timing(chip))
    return found


def test_waits_and_barriers_are_those_of_the_word():
    found = step("LDSM.16.M88.4 R8, [R2]", 4, written=1, read=3, waits=(0, 5))
    assert (found.unit, found.cycles, found.bytes, found.stall) == (LDS, 4, 512, 4)
    assert found.left == (("sb0", 0), ("sb5", 0))
    assert (dict(found.held), dict(found.counters)) == ({"sb3": 12}, {"sb1": 28})


def test_a_product_waits_for_its_accumulators():
    found = step("HMMA.16816.F32 R4, R8, R12, R4", 2)
    assert (found.unit, found.cycles) == (MATRIX, 8)
    assert found.writes == frozenset(("R", number) for number in (4, 5, 6, 7))
    assert found.reads > found.writes
    halves = step("HMMA.16816.F16 R4, R8, R12, R4", chip="sm_86")
    assert (halves.cycles, len(halves.writes)) == (16, 2)
    assert step("FADD R20, R6, R21").reads == frozenset(("R", number) for number in (20, 6, 21))


@pytest.mark.parametrize(
    ("text", "unit", "cycles"),
    [
        ("FFMA R1, R2, R3, R4", "fma", 2), ("IADD3 R1, R2, R3, RZ", "alu", 2),
        ("MUFU.EX2 R1, R2", "slow", 8), ("HFMA2 R1, R2, R3, R4", "half", 1),
        ("SHFL.BFLY PT, R1, R2, 0x1, 0x1f", LDS, 1), ("STS.128 [R1], R4", LDS, 4),
        ("LDG.E.128 R4, [R2.64]", MEMORY, 8), ("UIADD3 UR4, UR4, 0x1, URZ", SCALAR, 0),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", BARRIER, 0), ("BRA `(.L_x_1)", BRANCH, 0),
    ],
)  # fmt: skip
def test_units(text, unit, cycles):
    found = step(text)
    assert (found.unit, found.cycles) == (unit, cycles)


def test_integers_take_part_of_the_multiply_adds():
    assert step("IMAD R1, R2, R3, R4", chip="sm_86").units == (("fma", 1), ("heavy", 2))


def test_copies_past_the_registers_are_waited_for_in_groups():
    copy = step("LDGSTS.E.BYPASS.128 [R3], [R4.64]", read=0)
    assert copy.units == ((MEMORY, 8), (LDS, 4))
    group = step("LDGDEPBAR", written=0)
    assert (group.unit, group.cycles, dict(group.counters)) == (MEMORY, 0, {"sb0": 500})
    wait = step("DEPBAR.LE SB0, 0x1")
    assert (wait.unit, wait.left) == (WAIT, (("sb0", 1),))


def test_products_of_warpgroups_are_waited_for_in_groups():
    found = step("HGMMA.64x256x16.F32 R24, gdesc[UR8], R24, gsb0", chip="sm_90a")
    assert (found.units, found.bytes) == (((MATRIX, 128),), 32 * (64 + 256) // 4)
    assert [name for name, _ in found.counters] == ["gsb0"]
    of_registers = step("HGMMA.64x32x16.F32 R24, R4, gdesc[UR8], R24", chip="sm_90a")
    assert (of_registers.cycles, of_registers.counters) == (16, ())
    wait = step("WARPGROUP.DEPBAR.LE gsb0, 0x1", chip="sm_90a")
    assert (wait.unit, wait.left) == (WAIT, (("gsb0", 1),))


def test_what_others_copy_is_charged_to_the_products():
    texts = [sass_line("HGMMA.64x256x16.F32 R24, gdesc[UR8], R24"), sass_line("BRA `(.L)")]
    steps = nvidia_steps(texts, nvidia_timing("sm_90a"), CopiedBeside(8192, 8, 4, 65536))
    assert [one.unit for one in steps] == [MEMORY, MATRIX, BRANCH]
    assert (steps[0].bytes, steps[0].units, steps[1].kept) == (1024, ((MEMORY, 16),), 0)


def test_copies_slow_products_that_need_all_of_shared_memory():
    """64 rows of A and 64 of B take the 32 cycles of the product; 4 x 1024 bytes come on top."""
    texts = [sass_line("HGMMA.64x64x16.F32 R24, gdesc[UR8], R24"), sass_line("BRA `(.L)")]
    alone = nvidia_steps(texts, nvidia_timing("sm_90a"))
    beside = nvidia_steps(texts, nvidia_timing("sm_90a"), CopiedBeside(8192, 8, 4, 65536))
    assert (alone[0].cycles, alone[0].kept, beside[1].kept) == (32, 0, 32)


def test_only_the_last_branch_is_the_loop():
    texts = [sass_line("BRA `(.L_x_2)"), sass_line("NOP"), sass_line("BRA `(.L_x_1)")]
    units = [one.unit for one in nvidia_steps(texts, nvidia_timing("sm_80"))]
    assert units == [SCALAR, SCALAR, BRANCH]
    assert [one.stall for one in nvidia_steps(texts, nvidia_timing("sm_80"))] == [1, 1, 12]


def test_an_instruction_without_its_word_is_refused():
    with pytest.raises(TargetError, match=r"FADD R1, R2, R3: its word is not there"):
        nvidia_steps(["FADD R1, R2, R3 ;"], nvidia_timing("sm_80"))
