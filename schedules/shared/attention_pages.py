"""Key and value of attention where they lie in pages of a pool."""

from dataclasses import dataclass

from tvm import tirx

from tvm_iree_ext.schedules.emit import At, Expr, OperandView, i64


@dataclass(frozen=True)
class PagedView(OperandView):
    """A pool, whose map says where a key would be if the table left all pages in their order.

    ``table`` says which page it is instead.  Numbers outside of the pool count as the nearest page,
    so that nothing else is ever read.
    """

    table: OperandView

    def index(self, at: At, lanes: int = 1) -> list[Expr]:
        """The pool's indices at a point, as of any operand."""
        last = i64(self.buffer.shape[0]) - 1
        page = tirx.max(tirx.min(self.table.load(at, "int64"), last), i64(0))
        return [page, *super().index(at, lanes)[1:]]
