"""Boxes of tensors, copied to shared memory and counted at a barrier."""

import numpy as np
import pytest

from tvm_iree_ext.emulator.tensor_maps import encode

SHARED = ".shared .align 1024 .b8 m[8192]; .shared .align 8 .b8 bar[8];"
# Lane 0 starts the copy; all wait, and copy what came to the result, 4 bytes a lane at a time.
COPY = """mov.u32 %r1, m; mov.u32 %r2, bar; setp.eq.u32 %p1, %r0, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
@!%p1 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {size};
mov.u32 %r3, {column}; mov.u32 %r4, {row};
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
  [%r1], [%rd2, {{%r3, %r4}}], [%r2];
WAIT: {wait}
mov.u32 %r9, %r0;
COPY: setp.ge.u32 %p3, %r9, {words}; @%p3 bra OUT;
mad.lo.u32 %r10, %r9, 4, %r1; ld.shared.u32 %r11, [%r10];
mad.wide.u32 %rd9, %r9, 4, %rd1; st.global.u32 [%rd9], %r11; add.u32 %r9, %r9, 32; bra COPY;
OUT:"""
WAIT = """AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra AGAIN;"""
HALF = 6
SWIZZLES = {16: 0, 32: 1, 64: 2, 128: 3}


def copied(run_ptx, array, box, at, width, *, wait=WAIT, size=None, **named):
    rows, columns = box
    nbytes = rows * columns * 2
    body = COPY.format(
        size=nbytes if size is None else size, column=at[1], row=at[0], words=nbytes // 4, wait=wait
    )

    def make(address, _result):
        return encode(
            HALF, address, array.shape[::-1], (array.shape[1] * 2,), (columns, rows), (1, 1),
            interleave=0, swizzle=SWIZZLES[width], fill=0,
        )  # fmt: skip

    result = np.zeros(nbytes // 2, "u2")
    return run_ptx(body, array, result, shared=SHARED, maps=[make], **named)


def box_of(array, box, at):
    """The box, with zeros outside of the array."""
    found = np.zeros(box, array.dtype)
    for row in range(box[0]):
        for column in range(box[1]):
            i, j = row + at[0], column + at[1]
            if 0 <= i < array.shape[0] and 0 <= j < array.shape[1]:
                found[row, column] = array[i, j]
    return found


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("at", [(0, 0), (3, 8), (15, 40), (-2, -4)])
def test_a_box_has_zeros_outside_of_the_array(run_ptx, at, order):
    array = np.arange(1, 20 * 48 + 1, dtype="u2").reshape(20, 48)
    _, got = copied(run_ptx, array, (8, 16), at, 16, order=order)
    np.testing.assert_array_equal(got.reshape(8, 16), box_of(array, (8, 16), at))


@pytest.mark.parametrize("width", [32, 64, 128])
def test_columns_of_16_bytes_are_swizzled(run_ptx, width):
    """CUDA Programming Guide, *Tensor Memory Access: swizzle*: chunks are exchanged by the row."""
    columns = width // 2
    array = np.arange(16 * columns, dtype="u2").reshape(16, columns)
    _, got = copied(run_ptx, array, (16, columns), (0, 0), width)
    chunks = got.reshape(16, width // 16, 8)
    per_line = 128 // width
    for row in range(16):
        for chunk in range(width // 16):
            source = chunk ^ (row // per_line % (width // 16))
            np.testing.assert_array_equal(
                chunks[row, chunk], array[row, 8 * source : 8 * source + 8]
            )


def test_a_copy_that_is_not_waited_for_is_seen(run_ptx):
    array = np.ones((8, 16), "u2")
    _, findings = copied(run_ptx, array, (8, 16), (0, 0), 16, wait="bar.sync 0;", check=False)
    assert [finding.kind for finding in findings] == ["uninitialised"]


@pytest.mark.parametrize("size", [128, 512])
def test_bytes_that_are_not_those_of_the_copy_are_found(run_ptx, size):
    array = np.ones((8, 16), "u2")
    _, findings = copied(run_ptx, array, (8, 16), (0, 0), 16, size=size, check=False)
    assert [finding.message for finding in findings] == ["lanes wait for ever"]
