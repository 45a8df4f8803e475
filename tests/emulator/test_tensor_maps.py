"""Tensor maps: what is written is read; what CUDA's driver refuses is refused."""

import pytest

from tvm_iree_ext.emulator.tensor_maps import decode, encode

HALF = 6
RIGHT = {"interleave": 0, "swizzle": 3, "fill": 0}


def test_what_is_written_is_read():
    data = encode(HALF, 0x400000000100, (64, 30, 2), (128, 3840), (64, 8, 1), (1, 1, 1), **RIGHT)
    found = decode(data)
    assert len(data) == 128
    assert (found.address, found.itemsize, found.swizzle_bytes) == (0x400000000100, 2, 128)
    assert (found.extents, found.strides) == ((64, 30, 2), (2, 128, 3840))
    assert (found.box, found.steps) == ((64, 8, 1), (1, 1, 1))
    assert decode(bytes(128)) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"address": 8}, {"strides": (100,)}, {"box": (128, 8)}, {"box": (64, 257)},
        {"box": (4, 8)}, {"kind": 99}, {"interleave": 1}, {"swizzle": 7},
    ],
)  # fmt: skip
def test_what_the_driver_refuses_is_refused(changed):
    given = {
        "kind": HALF, "address": 256, "extents": (64, 30), "strides": (128,), "box": (64, 8),
        "steps": (1, 1), **RIGHT,
    }  # fmt: skip
    assert encode(**given)
    assert encode(**(given | changed)) == b""
