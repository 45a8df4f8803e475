"""Matrix instructions with scales, of every format."""

import itertools

import numpy as np
import pytest

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.intrin.tensor_intrins import mma_intrins
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_table, scaled_kinds
from tvm_iree_ext.targets.mma.scaled_kinds import SCALE_FORMATS

PAIRS = list(itertools.product(SCALE_FORMATS, repeat=2))
# For lanes 0, 16, 32, 48 (or 0, 32) and each of their two runs of 16 bytes, the lane whose scale
# the run meets, as composable_kernel's scale_mapping_16x16x128.txt and _32x32x64.txt have them.
MEETS = {
    16: {0: (0, 32), 16: (0, 32), 32: (16, 48), 48: (16, 48)},
    32: {0: (0, 32), 32: (0, 32)},
}


def held(operand):
    """Row or column and place along K of what lanes hold."""
    at = operand.coordinates(64)
    dims = list(operand.dims)
    k = at[..., dims.index("Ks")] * 32 + at[..., dims.index("Kb")]
    return at[..., 3 - dims.index("Ks") - dims.index("Kb")], k


@pytest.mark.parametrize("formats", PAIRS, ids="-".join)
def test_a_chip_has_both_shapes_of_all_formats(formats):
    kinds = scaled_kinds("gfx950", *formats)
    assert [(kind.m, kind.n, kind.k) for kind in kinds] == [(16, 16, 128), (32, 32, 64)]
    assert not scaled_kinds("gfx942", *formats)
    assert [(kind.m, kind.n, kind.k) for kind in scaled_kinds("gfx1250", *formats)] == [
        (16, 16, 128)
    ]
    for kind in kinds:
        assert mma_kind(kind.name) == kind
        registers = {"f8": 8, "f6": 6, "f4": 4}
        assert kind.operand("lhs").registers == registers[formats[0][:2]]
        assert kind.operand("rhs").registers == registers[formats[1][:2]]
        assert [kind.format_codes[key] for key in ("cbsz_A", "blgp_B")] == [
            SCALE_FORMATS[one] for one in formats
        ]


def test_of_4_bits_it_is_the_tables():
    for name in ("MFMA_SCALE_F32_16x16x128_B32", "MFMA_SCALE_F32_32x32x64_B32"):
        table, made = mma_table()[name], mma_kind(f"{name}_F4E2M1FN_F4E2M1FN")
        for side in ("lhs", "rhs", "acc", "lhs_scale", "rhs_scale"):
            ours, its = made.operand(side), table.operand(side)
            np.testing.assert_array_equal(ours.coordinates(64), its.coordinates(64))


@pytest.mark.parametrize("size", MEETS)
@pytest.mark.parametrize("side", ["lhs", "rhs"])
def test_a_run_of_8_bits_meets_the_scale_of_its_block(size, side):
    kind = next(k for k in scaled_kinds("gfx950", "f8e4m3fn", "f8e5m2") if k.m == size)
    row, k = held(kind.operand(side))
    groups = 64 // size
    for lane, scales in MEETS[size].items():
        for run, scale in enumerate(scales):
            own = slice(16 * run, 16 * run + 16)
            assert row[lane, own].tolist() == [lane % size] * 16
            first = 16 * (lane // size) + 16 * groups * run
            assert k[lane, own].tolist() == list(range(first, first + 16))
            holder = kind.operand(f"{side}_scale").coordinates(64)[scale, 0].tolist()
            assert sorted(holder) == sorted([lane % size, first // 32])


@pytest.mark.parametrize("name", ["f6e2m3fn", "f6e3m2fn", "f4e2m1fn"])
def test_a_lane_has_a_block_of_what_is_below_8_bits(name):
    for kind in scaled_kinds("gfx950", name, name):
        row, k = held(kind.operand("lhs"))
        for lane in range(64):
            assert row[lane].tolist() == [lane % kind.m] * 32
            assert k[lane].tolist() == list(
                range(32 * (lane // kind.m), 32 * (lane // kind.m) + 32)
            )


# NVIDIA's, by CUTLASS's mma_traits_sm120.hpp: extents and strides of a lane's digits, and of those
# of its elements, whose sum is a place in A, B or their scales, column by column.
CUTLASS = {
    32: {
        "lhs": ([(4, 64), (8, 1)], [(4, 16), (2, 8), (2, 256)]),
        "rhs": ([(4, 32), (8, 1)], [(4, 8), (2, 128)]),
    },
    64: {
        "lhs": ([(4, 128), (8, 1)], [(8, 16), (2, 8), (2, 512)]),
        "rhs": ([(4, 64), (8, 1)], [(8, 8), (2, 256)]),
    },
    "lhs_scale": [(2, 8), (2, 0), (8, 1)],
    "rhs_scale": [(4, 0), (8, 1)],
}
NVIDIA = [mma for mma in mma_table().values() if mma.kind == "scaled" and mma.vendor == "nvidia"]


def places(digits):
    """The sum of digits times strides for each number, the first digit the fastest."""
    at = np.zeros(1, int)
    for extent, stride in digits:
        at = (at + stride * np.arange(extent)[:, None]).ravel()
    return at


@pytest.mark.parametrize("kind", NVIDIA, ids=lambda kind: kind.name)
@pytest.mark.parametrize("side", ["lhs", "rhs"])
def test_nvidias_lanes_are_those_of_cutlass(kind, side):
    operand, lines = kind.operand(side), {"lhs": 16, "rhs": 8}[side]
    dims = list(operand.dims)
    at = operand.coordinates(32)
    k = at[..., dims.index("Ks")] * kind.scale_block + at[..., dims.index("Kb")]
    line = at[..., dims.index("M" if side == "lhs" else "N")]
    lanes, elements = CUTLASS[kind.k][side]
    want = places(lanes)[:, None] + places(elements)
    np.testing.assert_array_equal(line + lines * k, want)

    scale = kind.operand(f"{side}_scale")
    held = scale.coordinates(32)
    own = held[..., scale.dims.index("M" if side == "lhs" else "N")]
    rows = np.broadcast_to(places(CUTLASS[f"{side}_scale"])[:, None], own.shape)
    np.testing.assert_array_equal(own, rows)
    assert (held[..., scale.dims.index("Ks")] == np.arange(kind.k // kind.scale_block)).all()


def test_gfx1250_multiplies_what_probes_found():
    """AMD's FPSan: which lane and element of 8 bits, and of fewer, meet as ``label``, and a scale.

    A label's bits are an element's place in the order of that program, not along K.
    """
    (kind,) = scaled_kinds("gfx1250", "f8e5m2", "f6e2m3fn")
    labels = np.arange(128)
    bit = [labels >> at & 1 for at in range(7)]
    of_8 = 16 * bit[2], bit[0] + 2 * bit[1] + 4 * bit[3] + 8 * bit[4] + 16 * bit[5] + 32 * bit[6]
    below = 16 * bit[5], bit[0] + 2 * bit[1] + 4 * bit[3] + 8 * bit[4] + 16 * bit[2] + 32 * bit[6]
    places = []
    for side, (half, element) in (("lhs", of_8), ("rhs", below)):
        operand = kind.operand(side)
        at = operand.coordinates(32)
        k = at[..., operand.dims.index("Ks")] * 32 + at[..., operand.dims.index("Kb")]
        places.append(k[half + 3, element])
        assert (at[half + 3, element, operand.dims.index("M" if side == "lhs" else "N")] == 3).all()
    np.testing.assert_array_equal(*places)
    np.testing.assert_array_equal(places[0] // 32, labels >> 5)  # the byte of its scale
    scale = kind.operand("lhs_scale")
    assert scale.coordinates(32)[3].tolist() == scale.coordinates(32)[19].tolist()
    assert scale.coordinates(32)[3].tolist() == [[3, byte] for byte in range(4)]
    assert scale.replica_stride == 16


@pytest.mark.parametrize("formats", PAIRS, ids="-".join)
def test_sm_120a_has_all_formats_in_bytes_and_4_bits_with_twice_the_depth(formats):
    found = scaled_kinds("sm_120a", *formats)
    is_small = set(formats) == {"f4e2m1fn"}
    assert [kind.k for kind in found] == [64, 32][not is_small :]
    for kind in found:
        assert mma_kind(kind.name) == kind
        assert (kind.operand("lhs").registers, kind.operand("rhs").registers) == (4, 2)
    assert [kind.k for kind in scaled_kinds("sm_120a", *formats, "ue4m3")] == [64][: int(is_small)]
    assert not scaled_kinds("sm_120", *formats)


def test_they_have_no_tensor_intrins():
    with pytest.raises(TargetError, match="scales of several instructions share registers"):
        mma_intrins("NV_MMA_SCALE_F32_16x8x64_B16")
    with pytest.raises(TargetError, match="lie across bytes; products with scales pack them"):
        mma_intrins("MFMA_SCALE_F32_16x16x128_B32_F6E2M3FN_F4E2M1FN")
