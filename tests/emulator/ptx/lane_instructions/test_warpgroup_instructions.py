"""Products by four warps: tiles by descriptors, results at the wait, fences."""

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.emulator.ptx.lane_instructions.matrix_instructions import element_values
from tvm_iree_ext.emulator.ptx.lane_instructions.warpgroup_instructions import tile_offsets

SHARED = ".shared .align 1024 .b8 m[16384];"
B_START = 8192  # of B's tile
NO_SWIZZLE, WIDE = 0, 1
# Each lane stores its part of both tiles, which come as they are to lie in shared memory.
STORE = """mov.u32 %r1, m; mov.u32 %r9, %r0;
COPY: setp.ge.u32 %p3, %r9, {words}; @%p3 bra OUT;
mad.wide.u32 %rd9, %r9, 4, %rd0; ld.global.u32 %r11, [%rd9];
mad.lo.u32 %r10, %r9, 4, %r1; st.shared.u32 [%r10], %r11; add.u32 %r9, %r9, 128; bra COPY;
OUT: {fence} bar.sync 0;"""
MULTIPLY = """mov.u32 %r2, m; shr.u32 %r2, %r2, 4; cvt.u64.u32 %rd10, %r2;
add.u64 %rd11, %rd10, {a}; add.u64 %rd12, %rd10, {b}; setp.ne.u32 %p1, %r0, %r0;
mov.f32 %f0, 0f41000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
{first}
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd11, %rd12, {adds},
  1, {sign}, 0, 0;
wgmma.commit_group.sync.aligned; {wait}
mad.wide.u32 %rd9, %r0, 16, %rd1; st.global.v4.f32 [%rd9], {{%f0, %f1, %f2, %f3}};"""
WAIT = "wgmma.wait_group.sync.aligned 0;"
FIRST = "wgmma.fence.sync.aligned;"
FENCE = "fence.proxy.async.shared::cta;"


def descriptor(start, leading, stride, mode=NO_SWIZZLE):
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62


def core_matrices(tile):
    """[rows, 16] of float16: matrices of 8 rows of 16 bytes, all of the first 8 columns first."""
    rows = len(tile)
    return tile.reshape(rows // 8, 8, 2, 8).transpose(2, 0, 1, 3).reshape(-1)


def multiplied(run_ptx, *, wait=WAIT, fence=FENCE, adds="%p1", sign=1, first=FIRST, **named):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, 16)).astype("f2") for rows in (64, 8))
    memory = np.zeros(16384 // 2, "f2")
    memory[: a.size] = core_matrices(a)
    memory[B_START // 2 : B_START // 2 + b.size] = core_matrices(b)
    body = STORE.format(words=len(memory) // 2, fence=fence) + MULTIPLY.format(
        a=descriptor(0, 64 * 16, 128), b=descriptor(B_START, 8 * 16, 128), wait=wait, adds=adds,
        sign=sign, first=first,
    )  # fmt: skip
    found = run_ptx(body, memory, np.zeros((128, 4), "f4"), lanes=128, shared=SHARED, **named)
    product = a.astype("f8") @ b.astype("f8").T
    lane = np.arange(128)
    rows = lane // 32 * 16 + lane % 32 // 4
    want = np.stack([product[rows + 8 * (i // 2), lane % 4 * 2 + i % 2] for i in range(4)], axis=1)
    return found, want


@pytest.mark.costly
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_product_is_that_of_its_tiles(run_ptx, order, sign):
    (_, got), want = multiplied(run_ptx, order=order, sign=sign)
    np.testing.assert_array_equal(got, sign * want)


def test_it_is_added_to_what_the_registers_hold(run_ptx):
    (_, got), want = multiplied(run_ptx, adds="1")
    np.testing.assert_array_equal(got, want + 8)


def test_registers_hold_noise_until_the_wait(run_ptx):
    (_, got), _ = multiplied(run_ptx, wait="", order=1)
    assert np.isnan(got).all()


def test_stores_that_no_fence_came_after_are_found(run_ptx):
    (_, findings), _ = multiplied(run_ptx, fence="", check=False)
    assert [finding.message for finding in findings] == [
        "what ordinary stores wrote, without fence.proxy.async between"
    ]


def test_a_first_product_without_a_fence_is_found(run_ptx):
    (_, findings), _ = multiplied(run_ptx, first="", check=False)
    assert [finding.message for finding in findings] == ["there has been no wgmma.fence"]


def test_places_of_swizzled_tiles():
    """CUTLASS, *mma_sm90_desc.hpp*: rows of 128 bytes, of which 8 are permuted."""
    words = np.array([descriptor(1024, 16, 1024, WIDE)], np.uint64)
    (offsets,) = tile_offsets(words, 16, 64, 16, outer_major=False)
    for row in range(16):
        for column in range(0, 64, 8):
            chunk = column // 8 ^ row % 8
            assert offsets[row, column] == 1024 + row * 128 + chunk * 16


def test_types_that_numpy_lacks_have_their_values():
    codes = np.arange(256, dtype="u1")
    want = codes.view(ml_dtypes.float8_e4m3fn).astype("f8")
    np.testing.assert_array_equal(element_values(codes, "e4m3"), want)
