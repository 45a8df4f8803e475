"""What a tensor map says of an array and of the boxes that are copied of it.

Its 128 bytes are the driver's own affair; an emulated driver writes them by :func:`encode`, and
copies read them by :func:`decode`.  Source: CUDA Driver API, *cuTensorMapEncodeTiled*; PTX ISA 9.0,
*Tensors*.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

_FORM = "<Q8B5Q4Q5H5H20x"
_MAGIC = 0x7E
_MOST_RANK = 5
# CUtensorMapDataType -> bytes
_BYTES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 4, 12: 4}
_SWIZZLE = {0: 16, 1: 32, 2: 64, 3: 128}  # CUtensorMapSwizzle -> bytes of a permuted row


@dataclass(frozen=True)
class BoxMap:
    """An array in global memory, and a box of it.

    Attributes:
        address: of the first element.
        itemsize: bytes of an element.
        extents: of the array, the fastest first.
        strides: bytes from one element to the next in each dim.
        box: elements of the array that a copy reaches over, by dim.
        steps: from one that is copied to the next.
        swizzle_bytes: of a row of the box whose 16-byte columns are permuted; 16: they are not.
        fills_nan: whether NaN, and not 0, is outside of the array.
    """

    address: int
    itemsize: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle_bytes: int
    fills_nan: bool

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that are copied, by dim: each ``steps``-th of the box."""
        return tuple(-(-span // step) for span, step in zip(self.box, self.steps, strict=True))


def encode(
    kind: int,
    address: int,
    extents: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    steps: Sequence[int],
    *,
    interleave: int,
    swizzle: int,
    fill: int,
) -> bytes:
    """A map's 128 bytes; empty for what the driver refuses.

    Its rules (CUDA Driver API, *cuTensorMapEncodeTiled*): addresses of a multiple of 16 bytes,
    strides too, boxes of at most 256 elements a dim, rows of whole 16 bytes that fit the swizzle.
    """
    rank = len(extents)
    size = _BYTES.get(kind)
    if size is None or not 1 <= rank <= _MOST_RANK or interleave or swizzle not in _SWIZZLE:
        return b""
    row = box[0] * size
    wrong = address % 16 or any(stride % 16 or stride >= 1 << 40 for stride in strides)
    wrong = wrong or any(not 1 <= extent <= 256 for extent in box) or row % 16
    wrong = wrong or any(not 1 <= extent <= 1 << 32 for extent in extents)
    wrong = (
        wrong or (swizzle and row > _SWIZZLE[swizzle]) or any(not 1 <= one <= 8 for one in steps)
    )
    if wrong:
        return b""

    def padded(numbers: Sequence[int], count: int) -> list[int]:
        return [*numbers, *[0] * (count - len(numbers))]

    return struct.pack(
        _FORM, address, kind, rank, interleave, swizzle, 0, fill, 0, _MAGIC,
        *padded(extents, 5), *padded(strides, 4), *padded(box, 5), *padded(steps, 5),
    )  # fmt: skip


def decode(data: bytes) -> BoxMap | None:
    """What :func:`encode` wrote; None where it is no map."""
    address, kind, rank, _, swizzle, _, fill, _, magic, *rest = struct.unpack(_FORM, data)
    if magic != _MAGIC or kind not in _BYTES:
        return None
    extents, strides, box, steps = rest[:5], rest[5:9], rest[9:14], rest[14:19]
    size = _BYTES[kind]
    return BoxMap(
        address, size, tuple(extents[:rank]), (size, *strides[: rank - 1]), tuple(box[:rank]),
        tuple(steps[:rank]), _SWIZZLE[swizzle], bool(fill),
    )  # fmt: skip
