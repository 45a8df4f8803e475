"""Convolutions as contractions: the window and all positions are unrolled.

before:  acc[n, oh, ow, oc] += in[n, oh * sh + fh, ow * sw + fw, ic] * filter[fh, fw, ic, oc]
after:   for each (n, oh, ow, fh, fw), and each channel c of ic:
             acc[1 x oc] += in[1 x 1 at (n, oh * sh + fh, ow * sw + fw, c)] * filter[1 x oc]

Each is a contraction of m = 1, n = oc, k = 1: positions and channels are numbers, so the maps that
are left are projected permutations.
"""

from collections.abc import Sequence
from itertools import product

from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ops.contract import PARALLEL, REDUCTION
from tvm_iree_ext.vector.ops.structured import CONVOLUTIONS, StructuredNest
from tvm_iree_ext.vector.programs.builder import Builder

_MATMUL = ("(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)")


def vectorize_windows(
    op: Operation, b: Builder, nest: StructuredNest, sizes: Sequence[int]
) -> Value:
    """The result of a convolution of static tiles.

    Raises:
        VectorError: E_MAP for another nest whose maps are no projected permutations.
    """
    if op.name not in CONVOLUTIONS:
        found = next(map for map in nest.maps if not map.is_projected_permutation())
        raise op.error("E_MAP", f"the map {found} is no projected permutation")
    lhs, rhs, out = op.operands
    lhs_map, rhs_map, out_map = nest.maps
    (channel,) = set(lhs_map.used) & set(rhs_map.used)
    (feature,) = set(rhs_map.used) & set(out_map.used)
    points = [
        range(1) if dim in (channel, feature) else range(size) for dim, size in enumerate(sizes)
    ]
    blocks = _Blocks(b, sizes)
    read, cut = blocks.read, blocks.cut
    result = out
    outer = [range(1) if nest.iterators[d] == REDUCTION else points[d] for d in range(len(sizes))]
    window = [range(1) if nest.iterators[d] == PARALLEL else points[d] for d in range(len(sizes))]
    for position in product(*outer):
        acc = read(out, out_map, (None, feature), position)
        for tap in product(*window):
            at = tuple(p + t for p, t in zip(position, tap, strict=True))
            image = read(lhs, lhs_map, (None, channel), at)
            filter = read(rhs, rhs_map, (channel, feature), at)
            for c in range(sizes[channel]):
                acc = b.contract(
                    cut(image, (0, c), (1, 1)),
                    cut(filter, (c, 0), (1, sizes[feature])),
                    acc,
                    indexing_maps=_MATMUL,
                    iterator_types=(PARALLEL, PARALLEL, REDUCTION),
                )
        written = b.transfer_write(
            acc,
            result,
            out_map.at(position),
            permutation_map=_block(out_map, (None, feature)),
            in_bounds=[True, True],
        )
        assert written is not None
        result = written
    return result


class _Blocks:
    """2-D blocks of operands, and slices of these: each is made once."""

    def __init__(self, b: Builder, sizes: Sequence[int]) -> None:
        self.b, self.sizes = b, sizes
        self.made: dict[tuple[object, ...], Value] = {}

    def read(
        self, value: Value, map: AffineMap, dims: tuple[int | None, int], at: tuple[int, ...]
    ) -> Value:
        """The block at a point of the nest; None stands for a dim of extent 1."""
        place = map.at(at)
        key = (value, place)
        if key not in self.made:
            shape = [1 if dim is None else self.sizes[dim] for dim in dims]
            self.made[key] = self.b.transfer_read(
                value, place, shape, permutation_map=_block(map, dims), in_bounds=[True, True]
            )
        return self.made[key]

    def cut(self, vector: Value, offsets: tuple[int, int], shape: tuple[int, int]) -> Value:
        """A slice of a block."""
        key = (vector, offsets)
        if key not in self.made:
            self.made[key] = self.b.extract_strided_slice(vector, offsets, shape)
        return self.made[key]


def _block(map: AffineMap, dims: tuple[int | None, int]) -> AffineMap:
    """The map of a transfer of two dims of a nest; the first may be any dim of extent 1."""
    last = map.dims.index(dims[1])
    beside = last - 1 if last else 1
    first = beside if dims[0] is None else map.dims.index(dims[0])
    return AffineMap.of(len(map.results), [first, last])
