"""tcgen05: the bits of descriptors, and where tensor memory has a product's sums."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.intrin.shared_operands import SharedOperand
from tvm_iree_ext.intrin.tcgen05 import allocated_columns, instruction_descriptor
from tvm_iree_ext.intrin.tensor_intrins import mma_intrins
from tvm_iree_ext.simulator.machine.tensor_products import TensorProduct, encode
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_kinds

KINDS = mma_kinds("sm_100a", ("tensor_memory",))
# The enumerations of CUTLASS, cute/arch/mma_sm100_desc.hpp.
FORMATS = {"f16": 0, "bf16": 1, "f8e4m3fn": 0, "f8e5m2": 1, "i8": 1}
SUMS = {"f16": 0, "f32": 1, "i32": 2}


def fields(code):
    """The fields of an instruction descriptor that CUTLASS has for dense products, by name."""
    places = {
        "sparse_id2": (0, 2), "sparse": (2, 1), "saturate": (3, 1), "c": (4, 2), "a": (7, 3),
        "b": (10, 3), "a_negate": (13, 1), "b_negate": (14, 1), "a_major": (15, 1),
        "b_major": (16, 1), "n": (17, 6), "m": (24, 5), "max_shift": (30, 2),
    }  # fmt: skip
    return {name: code >> first & (1 << bits) - 1 for name, (first, bits) in places.items()}


@pytest.mark.parametrize("mma", KINDS, ids=lambda mma: mma.name)
def test_instruction_descriptors_have_the_fields_of_cutlass(mma):
    code = instruction_descriptor(mma, lhs_k_major=False, rhs_k_major=True)
    assert fields(code) == {
        "sparse_id2": 0, "sparse": 0, "saturate": 0, "c": SUMS[mma.c], "a": FORMATS[mma.a],
        "b": FORMATS[mma.b], "a_negate": 0, "b_negate": 0, "a_major": 1, "b_major": 0,
        "n": mma.n >> 3, "m": mma.m >> 4, "max_shift": 0,
    }  # fmt: skip
    kind = mma.ptx.rpartition("::")[2]
    product = TensorProduct.of(kind, code, mma.workgroups)
    assert TensorProduct.of(kind, code, 3 - mma.workgroups) is None
    assert (product.name, product.k, product.majors) == (mma.name, mma.k, (False, True))


@pytest.mark.parametrize("mma", KINDS, ids=lambda mma: mma.name)
def test_a_row_of_sums_is_a_lane_of_tensor_memory(mma):
    """PTX ISA, layout D of 128 rows; tcgen05.ld.32x32b gives a subgroup's lane its row.

    Of pairs it is layout A: 128 rows in the first workgroup, the others in the second.
    """
    held = mma.acc.coordinates(128 * mma.workgroups)
    lane, column = np.meshgrid(np.arange(mma.m), np.arange(mma.n), indexing="ij")
    np.testing.assert_array_equal(held, np.stack([lane, column], axis=-1))


@pytest.mark.parametrize("shape", [(64, 128), (128, 24)])
@pytest.mark.parametrize(("kind", "more"), [("f16", 0), ("f16", 1 << 2), ("i8", 0)])
def test_no_product_has_other_bits(shape, kind, more):
    m, n = shape
    assert TensorProduct.of(kind, 1 << 4 | n // 8 << 17 | m // 16 << 24 | more) is None


def test_matrix_descriptors_have_the_fields_of_cutlass():
    """Version 1 in bits 46 and 47; swizzles of 128, 64, 32 and 16 bytes are 2, 4, 6 and 0."""
    for mode, code in ((3, 2), (2, 4), (1, 6), (0, 0)):
        word = int(encode(0x2340, 1, 64, mode))
        assert (word & 0x3FFF, word >> 16 & 0x3FFF, word >> 32 & 0x3FFF) == (0x234, 1, 64)
        assert (word >> 46 & 7, word >> 49 & 0xFFF, word >> 61) == (1, 0, code)


@pytest.mark.parametrize("swizzle_bytes", [32, 64, 128])
@pytest.mark.parametrize("side", ["lhs", "rhs"])
@pytest.mark.parametrize("k_major", [True, False])
@pytest.mark.parametrize("kind", ["NV_TCGEN05_F32_128x128x16_F16", "NV_TCGEN05_I32_128x128x32_I8"])
def test_tiles_are_read_from_the_bytes_of_the_index_map(kind, side, k_major, swizzle_bytes):
    mma = mma_kind(kind)
    operand = SharedOperand(mma, side, swizzle_bytes // 32, k_major, swizzle_bytes)
    mode, size = {32: 1, 64: 2, 128: 3}[swizzle_bytes], operand.bits // 8
    for step in range(operand.steps):
        first = operand.first(step) * size
        tile = TensorProduct.place(int(encode(first, *operand.strides, mode)))
        at = tile.addresses(128, mma.k, operand.bits, k_major=k_major)
        for i in range(0, 128, 7):
            for k in range(mma.k):
                index = operand.index(i, step * mma.k + k)
                byte = size * int(np.ravel_multi_index(index, operand.shape))
                swizzled = byte ^ ((byte >> 7 & (swizzle_bytes // 16 - 1)) << 4)
                assert at[i, k] == swizzled


@pytest.mark.parametrize("k_major", [True, False])
@pytest.mark.parametrize("side", ["lhs", "rhs"])
def test_each_of_a_pair_has_half_of_a_tile(side, k_major):
    """As CUTLASS's copies for two workgroups have it: 128 rows of A, half of the columns of B."""
    mma = mma_kind("NV_TCGEN05_F32_256x192x16_F16")
    outer = {"lhs": 128, "rhs": 96}[side]
    tile = SharedOperand(mma, side, 4, k_major, 128 if k_major or side == "lhs" else 64).tile
    assert tile == ((outer, 64) if k_major else (64, outer))


def test_allocations_are_powers_of_two_from_32_on():
    assert [allocated_columns(n) for n in (1, 32, 33, 192, 512)] == [32, 32, 64, 256, 512]


def test_there_are_no_fragments():
    with pytest.raises(TargetError, match=r"its sums are in tensor memory; see intrin\.tcgen05"):
        mma_intrins("NV_TCGEN05_F32_128x64x16_F16")
