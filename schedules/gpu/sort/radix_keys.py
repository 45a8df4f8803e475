"""Digits of elements in the order of a plain comparison, for sorts that compare nothing."""

from dataclasses import dataclass

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import FLOATS, item_bytes
from tvm_iree_ext.schedules.emit import Expr
from tvm_iree_ext.schedules.gpu.emit.chip_math import held

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS

_INFINITY = {
    "bfloat16": 0x7F80,
    **{name: int(np.array(np.inf, name).view(f"u{np.dtype(name).itemsize}"))
       for name in FLOATS if name != "bfloat16"},
}  # fmt: skip


@dataclass(frozen=True)
class RadixKey:
    """The key of an element: an unsigned integer, smaller the earlier the element goes.

    Elements that are ties have the same: zeros of both signs, and all NaNs, which go last.

    Attributes:
        dtype: of the elements.
        descending: whether larger elements go first.
    """

    dtype: str
    descending: bool

    @property
    def digits(self) -> int:
        """How many digits a key has."""
        return item_bytes(self.dtype)

    @property
    def _type(self) -> str:
        # C computes smaller types in int.
        return "uint64" if self.digits == 8 else "uint32"

    def _number(self, value: int) -> Expr:
        if value < 1 << 63:
            return tirx.const(value, self._type)
        # No constant of TVM's is as large, nor may it fold one of halves.
        high = held(tirx.const(value >> 32, self._type))
        return (high << tirx.const(32, self._type)) | tirx.const(value & 0xFFFFFFFF, self._type)

    def key(self, word: Expr) -> Expr:
        """The key of an element as it lies in memory."""
        bits = DIGIT_BITS * self.digits
        ones, sign = self._number((1 << bits) - 1), self._number(1 << (bits - 1))
        key = word if str(word.ty.dtype) == self._type else tirx.Cast(self._type, word)
        if self.dtype in FLOATS:
            magnitude = I.Bind(key & self._number((1 << (bits - 1)) - 1))
            negative = tirx.bitwise_and(magnitude != self._number(0), magnitude != key)
            up = magnitude ^ sign
            # Of a negative number all bits are turned, of a zero none but the sign.
            rising = held(tirx.Select(negative, key ^ ones, up))
            key = rising ^ ones if self.descending else rising
            return held(tirx.Select(magnitude > self._number(_INFINITY[self.dtype]), ones, key))
        if self.dtype.startswith("int"):
            key = key ^ sign
        return key ^ ones if self.descending else key

    def digit(self, word: Expr, shift: Expr) -> Expr:
        """The digit of an element's key that begins at a bit."""
        key = self.key(word)
        if self.digits > 1:
            key = key >> tirx.Cast(self._type, shift)
        return held(tirx.Cast("int32", key & self._number(DIGITS - 1)))
