"""The plan of attention: what follows from the layouts of its two products.

    S[m, k2] = Q[m, k1] K[k2, k1]      the first product; its accumulator becomes P by the softmax
    O[m, n]  = P[m, k2] V[k2, n]       the second, which takes P as its left operand

Each subgroup has rows of its own, and all keys of a tile: the softmax stays inside a subgroup.  A
lane holds of S what the first accumulator's layout says, and has to hold of P what the second left
operand's says.  The sum over keys has no order: *which* key is which row of the first product is
free, and is chosen so that the two agree.  Then P never leaves its registers.  Where no order will
do (lanes that replicate P, multiply-adds), P goes by shuffles, or through shared memory.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.layout.conversion import Movement, analyse_conversion
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules.gpu.attention.attention_config import GpuAttentionConfig
from tvm_iree_ext.schedules.gpu.attention.attention_products import (
    Feed,
    acc_coordinates,
    is_multiply_add,
)
from tvm_iree_ext.schedules.gpu.attention.attention_rows import LaneRows, rows_of
from tvm_iree_ext.schedules.gpu.attention.attention_shared import (
    Costed,
    FragmentReads,
    SharedTile,
    TileWrites,
    padded_tile,
    with_fewest_passes,
)
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements
from tvm_iree_ext.targets.gpu import GpuChip
from tvm_iree_ext.targets.mma.contraction_layouts import contraction_layouts
from tvm_iree_ext.targets.mma.mma_kinds import Mma, tvm_dtype

_WORDS = {"bfloat16": "uint16"}


@dataclass(frozen=True)
class AttentionPlan:
    """A kernel's tiles and products.

    Attributes:
        op: what is computed.
        config: its numbers.
        chip, lanes: of the target; ``lanes`` of a subgroup.
        first, second: the kinds of the products.
        column_major: whether their operands are exchanged.
        row_tiles: instructions of a subgroup along the rows.
    """

    op: Attention
    config: GpuAttentionConfig
    chip: GpuChip
    lanes: int
    first: Mma
    second: Mma
    column_major: bool
    row_tiles: int

    @property
    def subgroups(self) -> int:
        """Of a workgroup."""
        return self.config.subgroups

    @property
    def rows(self) -> int:
        """Of a workgroup."""
        return self.config.rows

    @property
    def keys(self) -> int:
        """Of a step."""
        return self.config.keys

    @property
    def query_in_shared(self) -> bool:
        """Whether the query is read again for each step, instead of being kept in registers."""
        return "query" in self.config.promote

    @property
    def depth_steps(self) -> int:
        """Instructions of the first product along k1."""
        return -(-self.op.count("k1") // self.first.k)

    @property
    def column_tiles(self) -> int:
        """Instructions of the second product along n."""
        return -(-self.config.columns // self.second.n)

    @property
    def score_tiles(self) -> int:
        """Instructions of the first product along the keys."""
        return self.keys // self.first.n

    @property
    def weight_steps(self) -> int:
        """Instructions of the second product along the keys."""
        return self.keys // self.second.k

    @property
    def product_dtypes(self) -> tuple[str, str]:
        """What the two products multiply."""
        return tvm_dtype(self.first.a), tvm_dtype(self.second.a)

    @property
    def held_dtypes(self) -> tuple[str, str]:
        """What buffers of these have: bfloat16 as words, which TVM would make float32."""
        first, second = (_WORDS.get(dtype, dtype) for dtype in self.product_dtypes)
        return first, second

    @cached_property
    def scores(self) -> np.ndarray:
        """Row and column of the first accumulator, ``[lanes, registers, 2]``, of all keys."""
        one = acc_coordinates(self.first, self.column_major)
        tiles = [one + np.array([0, tile * self.first.n]) for tile in range(self.score_tiles)]
        return np.concatenate(tiles, axis=1)

    @cached_property
    def weights(self) -> np.ndarray:
        """Row and key of the second left operand, ``[lanes, registers, 2]``, of all keys."""
        one = self.second.operand("lhs").coordinates(self.lanes)
        steps = [one + np.array([0, step * self.second.k]) for step in range(self.weight_steps)]
        return np.concatenate(steps, axis=1)

    @cached_property
    def score_rows(self) -> LaneRows:
        """The rows of a lane's scores, which its statistics are of."""
        return rows_of(self.scores)

    @cached_property
    def output_slots(self) -> Ints | None:
        """The slot of each register of the second accumulator; None where a row has none."""
        rows = acc_coordinates(self.second, self.column_major)[..., 0]
        held = self.score_rows.held
        found = []
        for register in range(rows.shape[1]):
            same = (held == rows[:, register, None]).all(axis=0)
            if not same.any():
                return None
            found.append(int(same.argmax()))
        return tuple(found)

    @cached_property
    def weight_registers(self) -> Ints | None:
        """For each register of the weights that of the scores with the same rows; None without."""
        scores, weights = self.scores[..., 0], self.weights[..., 0]
        if scores.shape != weights.shape:
            return None
        left = list(range(scores.shape[1]))
        found = []
        for register in range(weights.shape[1]):
            same = (at for at in left if (scores[:, at] == weights[:, register]).all())
            if (source := next(same, None)) is None:
                return None
            left.remove(source)
            found.append(source)
        return tuple(found)

    @cached_property
    def _order_for_registers(self) -> np.ndarray | None:
        """The key of each column of the scores, if weights can stay in the lanes of the scores."""
        if self.weight_registers is None:
            return None
        columns, keys = self.scores[:, self.weight_registers, 1], self.weights[..., 1]
        order = np.full(self.keys, -1)
        order[columns.reshape(-1)] = keys.reshape(-1)
        return order if (order[columns] == keys).all() else None

    @cached_property
    def key_order(self) -> np.ndarray:
        """The key of a tile that each column of the scores is of."""
        if self._order_for_registers is not None:
            return self._order_for_registers
        outer, lanes, element = self._key_digits
        column = np.arange(self.keys)
        tile, inside = column // self.first.n, column % self.first.n
        out, thread, part = inside // (lanes * element), inside // element % lanes, inside % element
        return tile * self.first.n + (thread * outer + out) * element + part

    @property
    def _key_digits(self) -> Ints:
        acc = self.first.operand("acc")
        dim = 0 if self.column_major else 1
        return acc.outer[dim], acc.thread[dim], acc.element[dim]

    @cached_property
    def conversion(self) -> tuple[NestedLayout, NestedLayout]:
        """The layouts of a row tile's weights: as scores are held, and as they are multiplied."""
        ones = (1, 1, 1)
        acc = contraction_layouts(
            self.first, "mnk", (self.first.m, self.keys, self.first.k), ones,
            column_major=self.column_major,
        ).acc  # fmt: skip
        outer, element = acc.outer_tile, acc.element_tile
        acc = replace(
            acc, outer_tile=(outer[0], 1), element_tile=(element[0], outer[1] * element[1])
        )
        lhs = contraction_layouts(
            self.second, "mnk", (self.second.m, self.second.n, self.keys), ones
        ).lhs
        return acc, lhs

    @cached_property
    def feed(self) -> Feed:
        """How weights reach the second product."""
        if self._order_for_registers is not None:
            return Feed.REGISTERS
        if is_multiply_add(self.first):
            return Feed.SHARED
        movement = analyse_conversion(*self.conversion, 1, self.lanes, packed=True).movement
        return Feed.SHARED if movement is Movement.SHARED else Feed.SHUFFLE

    @cached_property
    def key_tile(self) -> SharedTile:
        """Of the key."""
        return self._tile("key", self.depth_steps * self.first.k, self.held_dtypes[0])

    @cached_property
    def value_tile(self) -> SharedTile:
        """Of the value."""
        return self._tile("value", self.column_tiles * self.second.n, self.held_dtypes[1])

    def writes(self, name: str, tile: SharedTile, run: int | None = None) -> TileWrites:
        """The copy of the tile of ``key`` or ``value``.

        Args:
            name: of the operand.
            tile: where it lies.
            run: elements side by side in memory; by default as many as its columns have.
        """
        key_rows, size = self.key_rows(name), item_bytes(self.op.types[name].dtype)
        if run is None:
            row = self.op.count("k1" if name == "key" else "n") if key_rows else tile.keys
            run = vector_elements(8 * size, tile.columns if key_rows else tile.keys, row)
        bits = 8 * max(item_bytes(tile.dtype), size)
        return TileWrites(tile, (self.subgroups, self.lanes), key_rows, run, bits)

    def reads(self, name: str, tile: SharedTile) -> FragmentReads:
        """How fragments of ``key`` or ``value`` are read."""
        hardware = (self.subgroups, self.lanes)
        if name == "value":
            return FragmentReads(tile, hardware, self.chip, self.second.operand("rhs"), (0, 1))
        return FragmentReads(
            tile, hardware, self.chip, self.first.operand("rhs"), (1, 0), self.key_order
        )

    @cached_property
    def query_tile(self) -> SharedTile | None:
        """Of the query, where it is in shared memory; its rows are the keys of this tile."""
        if not self.query_in_shared:
            return None
        depth, dtype = self.depth_steps * self.first.k, self.held_dtypes[0]
        return padded_tile(self.rows, depth, dtype, True)

    @cached_property
    def weight_tile(self) -> SharedTile | None:
        """Of the weights, where they go through shared memory; its rows are of queries."""
        if self.feed is not Feed.SHARED:
            return None
        dtype = self.held_dtypes[1]
        return padded_tile(self.rows, self.keys, dtype, True)

    def _tile(self, name: str, columns: int, dtype: str) -> SharedTile:
        key_rows = self.key_rows(name)
        if item_bytes(dtype) == 2 and not self.chip.loads_matrices:
            key_rows = name == "key"  # a lane's run along the sum is contiguous
        plain = padded_tile(self.keys, columns, dtype, key_rows)
        # A loop over what is multiplied by lanes counts through the first product's columns, and
        # the second's keys: where these are rows, all are equally far apart.
        blocks = not is_multiply_add(self.first) or key_rows == (name == "key")
        return with_fewest_passes(
            plain, lambda tile: self._accesses(name, tile), self.chip.banks, blocks=blocks
        )

    def _accesses(self, name: str, tile: SharedTile) -> Costed:
        """What is done with a tile of key or value in a step, by all lanes."""
        size = item_bytes(tile.dtype)
        for access in self.writes(name, tile).accesses():
            yield access, access.count * size, 1
        reads = self.reads(name, tile)
        steps, tiles, wide = self.depth_steps, self.score_tiles, self.first.n
        if name == "value":
            steps, tiles, wide = self.weight_steps, self.column_tiles, self.second.n
        together = min(reads.together, tiles)
        for access in reads.accesses([(0, tile * wide) for tile in range(together)]):
            width = WIDEST_ACCESS_BYTES if reads.by_matrix else access.count * size
            one = replace(access, address=access.address[:1])  # the same for all subgroups
            yield one, width, steps * tiles // together * self.subgroups

    def key_rows(self, name: str) -> bool:
        """Whether rows of key or value in memory are of one key each."""
        axes = [axis for axis in self.op.maps[name].axes if axis]
        return not axes or axes[-1][-1] not in self.op.dims["k2"]

    @property
    def shared_memory_bytes(self) -> int:
        """Of a workgroup."""
        tiles = (self.key_tile, self.value_tile, self.query_tile, self.weight_tile)
        return sum(tile.bytes for tile in tiles if tile)
