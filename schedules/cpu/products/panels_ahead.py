"""The next panel of a factor, fetched into the second cache beside the products with one.

Several register tiles, of other rows, take the same panel.  The first waits for memory, and the
rest leave it idle; so each of the first fetches one cache line of the next panel beside each k.  A
whole program's weights are in no cache when their turn comes: without, one thread of a Xeon
(Emerald Rapids), float32, took 1.05 times as long for resnet18, and 1.09 for a block of a ViT.
"""

from collections.abc import Callable

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules.cpu.products.register_tiles import Beside, RegisterTile
from tvm_iree_ext.schedules.emit import LINE_BYTES, Expr, Index, i64, known

# A factor up to so large is in the second cache of any processor when it is read again.
_STAYS_BYTES = 512 << 10


def panels_ahead(
    tile: RegisterTile,
    elements: int | None,
    dtype: str,
    rows: Index,
    fetch: Callable[[Expr, int, Expr, Expr], None],
) -> Beside | None:
    """What goes on beside the products of a block; None where it would bring nothing.

    That is for a factor that stays in the cache, and for so few tiles of rows that they cannot
    fetch all lines: the memory is what takes the time then.

    Args:
        tile: of the products.
        elements: how many the factor has, where that is known.
        dtype: the factor's.
        rows: of the block.
        fetch: ``fetch(column, vectors, k, offset)`` has a line of the panel after that of a column
            fetched: at a k, so many elements behind the first.
    """
    line = LINE_BYTES // item_bytes(dtype)
    lines = max(tile.width // line, 1)
    high = known(rows)
    if elements is not None and elements * item_bytes(dtype) <= _STAYS_BYTES:
        return None
    if high is not None and -(-high // tile.rows) < lines:
        return None

    def beside(row: Expr, column: Expr, vectors: int, k: Expr) -> None:
        fetch(column, vectors, k, i64(row) // tile.rows % lines * line)

    return beside
