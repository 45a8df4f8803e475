"""A product of matrices in blocks, as the panels', by an instruction that multiplies tiles.

What is packed is packed as words are (:mod:`.contraction_panels`): 16 words of depth of a vector of
a panel of b are a tile, and of a 16 rows of as many, which lie together.  Sums leave their
registers for a tile of scratch, from where vectors of them take the way of all sums.  The last
words of depth that fill a tile are zeros.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.contraction.contraction_config import ContractionConfig
from tvm_iree_ext.schedules.cpu.contraction.contraction_packing import WORD, Part
from tvm_iree_ext.schedules.cpu.contraction.contraction_panels import PanelLoops
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import (
    ContractionOperands,
    ContractionPlan,
)
from tvm_iree_ext.schedules.cpu.contraction.contraction_sums import Finish, Take
from tvm_iree_ext.schedules.cpu.products import amx
from tvm_iree_ext.schedules.cpu.products.amx import TILE, TilePlace, TileProduct
from tvm_iree_ext.schedules.cpu.products.register_product import Either
from tvm_iree_ext.schedules.cpu.products.register_tiles import each_block, zeros
from tvm_iree_ext.schedules.emit import At, Expr, Index, i64, known, serial


class TileLoops(PanelLoops):
    """A kernel under construction."""

    def __init__(
        self,
        plan: ContractionPlan,
        operands: ContractionOperands,
        config: ContractionConfig,
        product: TileProduct,
    ) -> None:
        super().__init__(plan, operands, config, product)
        self.product = product
        a = self.packing[plan.a]
        self.packing[plan.a] = replace(a, overlap=False)
        self.stride = self.held_k

    @property
    def rows_first(self) -> bool:
        """No: all rows of a block are packed before."""
        return False

    def row_place(self, i: Expr, k: Expr) -> Expr:
        """Index of a packed word of a row: in tiles, one for each step of depth."""
        tile, line = emit.divide(i, TILE)
        step, word = emit.divide(k, TILE)
        return ((tile * (self.held_k // TILE) + step) * TILE + line) * TILE + word

    @contextmanager
    def declared(self) -> Iterator[None]:
        """With what tasks take."""
        with amx.declared():
            yield

    def task(self, slab: At, row: Expr, rows: Index, column: Expr, columns: Index) -> None:
        """A block of the result of a slab."""
        with amx.configured():
            super().task(slab, row, rows, column, columns)

    def multiply(self, slab: At, rows: Part, columns: Part, depth: Part, finish: Finish) -> None:
        """The products of a block of depth, of whole vectors of columns."""
        self.clear_rest(rows.count, depth.count)
        held = emit.scratch([self.tile.rows * self.tile.width], self.dtype)

        def block(row: Expr, height: int, column: Expr, vectors: int) -> None:
            width = vectors * self.lanes
            self.product.multiply(
                rows=-(-height // TILE),
                columns=vectors,
                depth=emit.ceil_div(depth.count, TILE),
                a=lambda i, k: TilePlace(
                    self.rows, (self.row_place(row + i * TILE, k * TILE),), TILE
                ),
                b=lambda k, j: TilePlace(
                    self.panels, (self.line(column, vectors, k * TILE, j),), width
                ),
                sums=lambda i, j: TilePlace(held, (i * TILE * width + j * TILE,), width),
                carried=False,
            )

            def take(end: Take) -> None:
                with serial(height) as i:
                    for j in range(vectors):
                        at = emit.run(i * width + j * self.lanes, self.lanes)
                        end(row + i, column + j * self.lanes, held[at])

            Either.each(finish, take)

        each_block(self.tile, rows.count, columns.count, block)

    def clear_rest(self, rows: Index, depth: Index) -> None:
        """Zeros for the words that a last tile of depth has and the block has not."""
        if (known(depth) or 1) % TILE == 0:
            return
        end = i64(emit.ceil_div(depth, TILE)) * TILE
        with serial(rows) as i, serial(end, depth) as k:
            I.buffer_store(self.rows, tirx.const(0, WORD), [self.row_place(i, k)])
        for first, count, vectors in self.parts:
            with serial(count) as panel, serial(end, depth) as k:
                for j in range(vectors):
                    at = self.line(first + panel * (vectors * self.lanes), vectors, k, j)
                    I.buffer_store(self.panels, zeros(WORD, self.lanes), [emit.run(at, self.lanes)])
