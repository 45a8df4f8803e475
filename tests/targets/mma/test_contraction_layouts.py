"""The operands' layouts of a contraction, by the worked examples, and chains of two."""

import doctest

import pytest

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout.analysis import Placement, bank_conflicts
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.targets.mma import contraction_layouts as module
from tvm_iree_ext.targets.mma.contraction_layouts import Chain, chain, contraction_layouts
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_table


def test_examples_hold():
    assert doctest.testmod(module).failed == 0


def layout(subgroup, batch, outer, thread, element, sstrides, tstrides):
    return NestedLayout(subgroup, batch, outer, thread, element, sstrides, tstrides)


def test_matmul_on_cdna():
    """128 x 128 x 64 by four waves, 2 x 2: what IREE prints for this configuration."""
    found = contraction_layouts(mma_kind("MFMA_F32_32x32x8_F16"), "mnk", (128, 128, 64), (2, 2, 1))
    assert found.lhs == layout((2, 1), (2, 8), (1, 1), (32, 2), (1, 4), (2, 0), (1, 32))
    assert found.rhs == layout((1, 2), (8, 2), (1, 1), (2, 32), (4, 1), (0, 1), (32, 1))
    assert found.acc == layout((2, 2), (2, 2), (4, 1), (2, 32), (4, 1), (2, 1), (32, 1))
    assert found.subgroups == 4
    # Lane 37 of wave 3 begins with rows 68 .. 71 of column 69; its fifth value is row 76.
    digits = found.acc.digits((68, 69))
    assert (digits.subgroup, digits.thread) == ((1, 1), (1, 5))
    assert found.acc.digits((76, 69)).outer == (1, 0)


def test_a_transposed_operand_has_its_numbers_swapped():
    mma = mma_kind("MFMA_F32_32x32x8_F16")
    plain = contraction_layouts(mma, "mnk", (128, 128, 64), (2, 2, 1))
    swapped = contraction_layouts(mma, "mnk", (128, 128, 64), (2, 2, 1), rhs=(1, 2))
    assert swapped.rhs == layout((2, 1), (2, 8), (1, 1), (32, 2), (1, 4), (1, 0), (1, 32))
    assert swapped.lhs == plain.lhs


def test_attention_on_nvidia():
    mma = mma_kind("NV_MMA_SYNC_F32_16x8x16_F16")
    scores = contraction_layouts(mma, "mnk", (64, 64, 64), (4, 1, 1))
    assert scores.lhs == layout((4, 1), (1, 4), (2, 2), (8, 4), (1, 2), (1, 0), (4, 1))
    assert scores.rhs == layout((1, 1), (4, 8), (2, 1), (4, 8), (2, 1), (0, 0), (1, 4))
    assert scores.acc == layout((4, 1), (1, 8), (2, 1), (8, 4), (1, 2), (1, 0), (4, 1))
    # Lane 5 of warp 1 owns rows 17 and 25, and columns 2, 3, 10, 11, ...
    held = [
        (row, column)
        for row in range(64)
        for column in range(64)
        if (digits := scores.acc.digits((row, column))).subgroup == (1, 0)
        and digits.thread == (1, 1)
    ]
    assert sorted({row for row, _ in held}) == [17, 25]
    assert sorted({column for _, column in held})[:4] == [2, 3, 10, 11]
    assert chain(mma, mma) == Chain(exact=True, column_major=False)


def test_attention_on_cdna_column_major():
    mma = mma_kind("MFMA_F32_32x32x8_F16")
    found = contraction_layouts(mma, "mnk", (128, 64, 64), (4, 1, 1), column_major=True)
    assert found.lhs == layout((4, 1), (1, 8), (1, 1), (32, 2), (1, 4), (1, 0), (1, 32))
    assert found.acc == layout((4, 1), (1, 2), (1, 4), (32, 2), (1, 4), (1, 0), (1, 32))
    wide = mma_kind("VMFMA_F32_32x32x16_F16")
    queries = contraction_layouts(wide, "mnk", (128, 64, 64), (4, 1, 1), column_major=True)
    assert queries.lhs == layout((4, 1), (1, 4), (1, 1), (32, 2), (1, 8), (1, 0), (1, 32))
    assert queries.acc == found.acc


def test_batches_blocks_and_warpgroups():
    blocked = contraction_layouts(
        mma_kind("MFMA_F32_4x4x4x16B_F16"), "bmnk", (32, 8, 4, 16), (1, 2, 1, 1)
    )
    assert blocked.batch == (2, 1, 1, 4)
    assert blocked.lhs.undistributed_shape == (32, 8, 16)
    batched = contraction_layouts(
        mma_kind("MFMA_F32_16x16x16_F16"), "bmmnk", (4, 3, 32, 32, 16), (2, 1, 1, 2, 1)
    )
    assert batched.batch == (2, 3, 2, 1, 1)
    assert batched.acc.undistributed_shape == (4, 3, 32, 32)
    assert batched.acc.subgroup_strides == (2, 0, 0, 1)

    wgmma = mma_kind("NV_WGMMA_F32_64x128x16_F16")
    pair = contraction_layouts(wgmma, "mnk", (128, 256, 64), (2, 2, 1))
    assert pair.rhs is None
    assert pair.subgroups == 16
    assert pair.acc == layout((8, 2), (1, 16), (2, 1), (8, 4), (1, 2), (1, 8), (4, 1))


def test_the_acc_of_a_row_is_read_with_few_conflicts():
    """The layouts are those that ``layout`` analyses: padding a row frees the banks."""
    found = contraction_layouts(mma_kind("MFMA_F32_32x32x8_F16"), "mnk", (128, 128, 64), (2, 2, 1))
    tight, padded = (
        bank_conflicts(found.lhs, Placement((128, 64), 2, pad_bytes=pad), 4, 64).worst
        for pad in (0, 8)
    )
    assert (tight, padded) == (16, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("MFMA_F32_16x16x16_F16", "mnq", (1, 1, 1), (1, 1, 1)), "roles 'mnq'"),
        (("MFMA_F32_16x16x16_F16", "mn", (1, 1), (1, 1)), "roles 'mn'"),
        (("MFMA_F32_16x16x16_F16", "mnk", (16, 16), (1, 1, 1)), "3 roles, 2 bounds"),
        (("MFMA_F32_16x16x16_F16", "mnk", (16, 0, 16), (1, 1, 1)), "start at 1"),
        (("MFMA_F32_4x4x4x16B_F16", "mnk", (4, 4, 4), (1, 1, 1)), "16 blocks need a batch loop"),
        (("NV_WMMA_F32_16x16x16_F16", "mnk", (16, 16, 16), (1, 1, 1)), "is not documented"),
        (("MFMA_SCALE_F32_16x16x128_B32", "mnk", (16, 16, 128), (1, 1, 1)), "two dimensions"),
        (("VDMFMA_F32_8x16x64x2_F16", "mnk", (8, 16, 64), (1, 1, 1)), "adjacent lanes share"),
    ],
)
def test_what_is_no_contraction_is_refused(arguments, message):
    name, *rest = arguments
    with pytest.raises(LayoutError, match=message):
        contraction_layouts(mma_kind(name), *rest)


def test_impossible_maps_and_swaps_are_refused():
    mma = mma_kind("NV_MMA_SYNC_F32_16x8x16_F16")
    with pytest.raises(LayoutError, match=r"lhs has the loops \[0, 1\]; it needs each of \[0, 2\]"):
        contraction_layouts(mma, "mnk", (16, 8, 16), (1, 1, 1), lhs=(0, 1))
    with pytest.raises(LayoutError, match="its A and B are not each other's transposes"):
        contraction_layouts(mma, "mnk", (16, 8, 16), (1, 1, 1), column_major=True)


NV = "NV_MMA_SYNC_F32_16x8x"
EXACT_ROWS, ANY_ROWS = Chain(True, False), Chain(False, False)
EXACT, PERMUTED = Chain(True, True), Chain(False, True)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (f"{NV}16_F16", f"{NV}8_BF16", EXACT_ROWS),
        (f"{NV}8_TF32", f"{NV}16_F16", EXACT_ROWS),
        (f"{NV}16_F16", f"{NV}32_F8E4M3FN", ANY_ROWS),
        (f"{NV}16_F16", f"{NV}8_TF32", ANY_ROWS),
        ("NV_WGMMA_F32_64x8x16_F16", "NV_WGMMA_F32_64x128x16_BF16", EXACT_ROWS),
        ("NV_WGMMA_F32_64x64x16_F16", "NV_WGMMA_F32_64x128x32_F8E4M3FN", ANY_ROWS),
        ("MFMA_F32_16x16x4_F32", "MFMA_F32_16x16x16_F16", EXACT),
        ("VMFMA_F32_32x32x16_F16", "MFMA_F32_32x32x8_BF16", EXACT),
        ("MFMA_F32_32x32x16_F8E4M3FNUZ", "VMFMA_F32_32x32x16_F8E4M3FNUZ", EXACT),
        ("MFMA_F32_16x16x32_F16", "MFMA_F32_16x16x32_F16", PERMUTED),
        ("MFMA_F32_16x16x16_F16", "VMFMA_F32_16x16x32_F16", PERMUTED),
        ("MFMA_F32_16x16x16_F16", "MFMA_F32_32x32x8_F16", None),
        ("WMMAR4_F32_16x16x16_F16", "WMMAR4_F32_16x16x16_BF16", EXACT),
        ("WMMA_F32_16x16x32_F16", "WMMA_F32_16x16x32_F16", PERMUTED),
        ("WMMAR3_F32_16x16x16_F16", "WMMAR3_F32_16x16x16_F16", None),
        ("WMMAR3_F32_16x16x16_F16", "WMMAR4_F32_16x16x16_F16", None),
        ("MFMA_F32_4x4x4x16B_F16", "MFMA_F32_4x4x4x16B_F16", None),
    ],
)
def test_chains(first, second, verdict):
    assert chain(mma_kind(first), mma_kind(second)) == verdict


def test_every_pair_of_mfma_of_one_tile_chains():
    """On a chip, every MFMA with a 32-bit accumulator feeds each of its tile."""
    rows = [
        row
        for row in mma_table().values()
        if row.on("gfx942") and row.kind in ("native", "virtual")
        and row.blocks == 1 and row.m == 32
    ]  # fmt: skip
    verdicts = {chain(first, second) for first in rows for second in rows}
    assert verdicts == {EXACT, PERMUTED}
