"""Twiddle factors of a transform on a GPU, in the order in which its lanes read them."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import i64
from tvm_iree_ext.schedules.gpu.emit import launches
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.shared.fft.fft_codelets import Point
from tvm_iree_ext.schedules.shared.fft.fft_roots import unit_roots
from tvm_iree_ext.tir.tir_expressions import Expr


def kept_powers(radix: int) -> list[int]:
    """Powers of a butterfly's root in the table; the others are these, turned by constants."""
    if radix & (radix - 1):
        return list(range(1, radix))
    return [1 << bit for bit in range(radix.bit_length() - 1)]


class RootsTable:
    """``exp(-2 pi i p t / (m r))`` for a stage of radix r after transforms of length m.

    For each stage with m > 1 and each power p that is kept, all t below m: neighbouring lanes,
    whose t are neighbours, read neighbouring places.  A kernel fills it.
    """

    def __init__(
        self, name: str, radices: Sequence[int], dtype: str, shape: launches.WorkgroupShape
    ) -> None:
        self._starts: dict[int, int] = {}
        stages, done, total = [], 1, 0
        for radix in radices:
            if done > 1 and radix > 1:
                self._starts[done] = total
                stages.append((total, done, radix))
                total += done * len(kept_powers(radix))
            done *= radix
        order = prod(radices)
        names = (f"{name}_real", f"{name}_imag")
        self._parts = [launches.global_memory(one, i64(total), dtype) for one in names]
        with launches.for_each(total, shape) as place:
            power: Any = i64(0)
            for start, done, radix in stages:
                step = order // (done * radix)
                row, t = emit.divide(tirx.max(place - start, i64(0)), done)
                powers = kept_powers(radix)
                kept = i64(powers[-1])
                for number in reversed(range(len(powers) - 1)):
                    kept = tirx.Select(row == number, i64(powers[number]), kept)
                power = tirx.Select(place >= start, t * kept * step, power)
            roots = unit_roots(held(power), order, dtype, 1)
            for part, value in zip(self._parts, roots, strict=True):
                I.buffer_store(part, value, [place])

    def at(self, done: int, number: int, t: Expr) -> Point:
        """The root of a kept power, by its number, in the stage after transforms of a length."""
        place = I.Bind(t + (self._starts[done] + number * done))
        return held(self._parts[0][place]), held(self._parts[1][place])
