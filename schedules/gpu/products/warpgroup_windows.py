"""The windows of a convolution as the rows of a product by warpgroups.

    a row of a tile     a pixel of the result; an instruction's 64 rows are a box of pixels, such
                        as 8 x 8 of an image, and boxes are counted column by column
    a step of k         a tap of the filter, and some channels

What an instruction reads for a tap is the box of the image that lies as far from the pixels: one
copy of the tensor memory unit, which puts zeros where the box reaches past the image, and takes
every second pixel where strides are 2.
"""

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from tvm import tirx

from tvm_iree_ext.layout.nested import Ints


@dataclass(frozen=True)
class ConvWindows:
    """A convolution with one group, in NHWC.

    Attributes:
        image: N, H, W and C; N may be None, where it is known at call time.
        output: rows and columns of the result.
        kernel: rows and columns of the filter.
        dilations: of rows and columns.
        padding: before the first row and column.
        box: images, rows and columns of pixels of an instruction.
        strides: of rows and columns of the image, from a pixel of the result to the next.
    """

    image: tuple[int | None, int, int, int]
    output: Ints
    kernel: Ints
    dilations: Ints
    padding: Ints
    box: Ints
    strides: Ints = (1, 1)

    def boxes(self, batch: Any) -> Any:
        """How many boxes the pixels take; ``batch`` are the images."""
        return -(-batch // self.box[0]) * prod(self._across)

    @property
    def _across(self) -> Ints:
        return tuple(
            -(-extent // part) for extent, part in zip(self.output, self.box[1:], strict=True)
        )

    def steps(self, channels: int) -> int:
        """Of k, each of so many channels."""
        return prod(self.kernel) * self.chunks(channels)

    def chunks(self, channels: int) -> int:
        """Steps of a tap."""
        return -(-self.image[3] // channels)

    def corner(self, number: Any) -> tuple[Any, Any, Any]:
        """Image, row and column of a box's first pixel."""
        high, wide = self._across
        n, y, x = number // (high * wide), number // wide % high, number % wide
        return n * self.box[0], y * self.box[1], x * self.box[2]

    def source(self, number: Any, step: Any, channels: int) -> list[Any]:
        """Where in the image the box of a step begins."""
        n, y, x = self.corner(number)
        tap, chunk = step // self.chunks(channels), step % self.chunks(channels)
        row, column = tap // self.kernel[1], tap % self.kernel[1]
        return [
            n,
            y * self.strides[0] + row * self.dilations[0] - self.padding[0],
            x * self.strides[1] + column * self.dilations[1] - self.padding[1],
            chunk * channels,
        ]

    def filter_source(self, column: Any, step: Any, channels: int, corner: Ints) -> list[Any]:
        """Where in the filter, of taps, channels and filters, the box of a step begins."""
        tap, chunk = step // self.chunks(channels), step % self.chunks(channels)
        return [tap, chunk * channels + corner[0], column + corner[1]]

    def pixel(self, number: Any, row: Any, batch: Any) -> tuple[Any, Any]:
        """The number of the pixel that is a box's row, and whether there is such a pixel."""
        n, y, x = self.corner(number)
        _, high, wide = self.box
        n, y, x = n + row // (high * wide), y + row // wide % high, x + row % wide
        inside: Any = None
        known = ((n, batch, self.box[0]), *zip((y, x), self.output, self.box[1:], strict=True))
        for at, extent, part in known:
            if at is not n and isinstance(extent, int) and extent % part == 0:
                continue
            condition = at < extent
            inside = condition if inside is None else tirx.And(inside, condition)
        return (n * self.output[0] + y) * self.output[1] + x, inside


def fitting_box(batch: int | None, output: Ints, pixels: int) -> Ints:
    """The box of so many pixels of which the fewest cover a result; of those the widest.

    It is of one image where their number is not known.
    """
    sizes = [1 << power for power in range(pixels.bit_length())]
    found = [
        (n, high, pixels // (n * high))
        for n, high in product(sizes if batch else [1], sizes)
        if n * high <= pixels
    ]

    def count(box: Ints) -> int:
        return prod(
            -(-extent // part) for extent, part in zip((batch or 1, *output), box, strict=True)
        )

    return min(found, key=lambda box: (count(box), -box[2]))
