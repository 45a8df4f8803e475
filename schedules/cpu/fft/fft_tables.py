"""Tables of roots of unity in a kernel's scratch memory, filled at the start of each call.

A small table is a row of constants in the code, computed when the kernel is built.  A large one is
computed by the kernel, as a polynomial: a few instructions for an element, where each element
serves all rows and costs a transform ten times as many.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, i64, serial
from tvm_iree_ext.schedules.shared.fft.fft_codelets import root
from tvm_iree_ext.schedules.shared.fft.fft_roots import Pair, unit_roots

_MOST_CONSTANTS = 2048


class Table:
    """``exp(-2 pi i power_at(p) / order)`` for p below ``count``: two arrays."""

    def __init__(
        self,
        count: int,
        order: int,
        power_at: Callable[[Any], Any],
        dtype: str,
        lanes: int,
    ) -> None:
        """Allocate and fill it; ``power_at`` takes a position, an int or expression."""
        self.count = count
        padded = -(-count // lanes) * lanes
        self.real, self.imag = emit.scratch([padded], dtype), emit.scratch([padded], dtype)
        if count <= _MOST_CONSTANTS:
            w = np.array([root(power_at(p), order) for p in range(padded)])
            for first in range(0, padded, lanes):
                part = w[first : first + lanes]
                I.buffer_store(self.real, constants(part.real, dtype), [emit.run(first, lanes)])
                I.buffer_store(self.imag, constants(part.imag, dtype), [emit.run(first, lanes)])
            return
        with serial(padded // lanes) as block:
            vector = emit.registers(lanes, "int64")
            for lane in range(lanes):
                power = power_at(block * lanes + lane)
                if order & (order - 1):
                    power = tirx.floormod(power, i64(order))
                else:
                    power = power & i64(order - 1)
                I.buffer_store(vector, power, [lane])
            real, imag = unit_roots(vector[emit.run(0, lanes)], order, dtype, lanes)
            I.buffer_store(self.real, real, [emit.run(block * lanes, lanes)])
            I.buffer_store(self.imag, imag, [emit.run(block * lanes, lanes)])

    def vector(self, position: Expr, lanes: int) -> Pair:
        """The elements from ``position`` on."""
        place = emit.run(position, lanes)
        return self.real[place], self.imag[place]

    def splat(self, position: Expr, lanes: int) -> Pair:
        """One element in all lanes."""
        at = i64(position)
        return emit.splat(self.real[at], lanes), emit.splat(self.imag[at], lanes)


def integers(values: np.ndarray, lanes: int) -> Any:
    """Scratch memory that holds numbers, of int32."""
    padded = np.resize(values, -(-len(values) // lanes) * lanes)
    table = emit.scratch([len(padded)], "int32")
    for first in range(0, len(padded), lanes):
        part = constants(padded[first : first + lanes], "int32")
        I.buffer_store(table, part, [emit.run(first, lanes)])
    return table


def constants(values: np.ndarray, dtype: str) -> Expr:
    """A vector of numbers."""
    scalars = [tirx.const(value.item(), dtype) for value in values]
    return tirx.Shuffle(scalars, list(range(len(scalars)))) if len(scalars) > 1 else scalars[0]
