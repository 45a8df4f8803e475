"""The elements of a top-k as unsigned integers that are smaller the earlier an element goes.

Keys of ties are equal, those of zeros of either sign among them.  A NaN among the candidates goes
behind all others, and one among the inits before; in the dialect's first form there is none.
"""

from typing import Any

import numpy as np
from tvm import tirx

from tvm_iree_ext.base.dtypes import FLOATS, item_bytes, numpy_dtype
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules.cpu.ordering.radix_digits import ordered_bits
from tvm_iree_ext.schedules.cpu.ordering.sort_keys import Keys
from tvm_iree_ext.schedules.emit import Expr, Index


class TopkKeys:
    """The keys of an op's elements, for a plain comparison."""

    def __init__(self, op: Topk) -> None:
        assert op.order is not None
        self.element_dtype = op.types["values"].dtype
        self.descending, self.keeps_pairs = op.order.descending, op.keeps_pairs
        self.bits = item_bytes(self.element_dtype) * 8
        self.dtype = f"uint{self.bits}"
        self.first, self.last = 0, (1 << self.bits) - 1
        """The keys of the best number and of the worst."""
        if self.element_dtype in FLOATS:
            kind: Any = numpy_dtype(self.element_dtype)
            infinity = int(np.array(np.inf, kind).view(self.dtype))
            self.first = (1 << (self.bits - 1)) - 1 - infinity
            self.last = self.first + 2 * infinity + 1

    def key(self, raw: Expr, *, init: bool) -> Expr:
        """The key of an element as it lies in memory."""
        key = ordered_bits(raw, self.element_dtype, self.descending)
        if self.element_dtype not in FLOATS or (init and not self.keeps_pairs):
            return key
        is_number = self.number(key - self.number(self.first)) <= self.number(
            self.last - self.first
        )
        return tirx.Select(is_number, key, self.number(0 if init else (1 << self.bits) - 1))

    def number(self, number: Index) -> Expr:
        """A number as a key."""
        if isinstance(number, int):
            return tirx.const(number, self.dtype)
        return tirx.Cast(self.dtype, number)

    def word(self, key: Expr) -> Expr:
        """The bits of an element that a key stands for."""
        return Keys(self.element_dtype, self.descending).element(key)

    def is_shared(self, key: Expr) -> Expr:
        """Whether a key is that of elements of several bit patterns: of both zeros, or of NaN."""
        if self.element_dtype not in FLOATS:
            return tirx.const(False, "bool")
        sign = 1 << (self.bits - 1)
        # Not by ``==`` with a large number: TVM would negate it.
        zero = key ^ self.number(sign - 1 if self.descending else sign)
        return tirx.Or(zero == self.number(0), key == self.number(0))
