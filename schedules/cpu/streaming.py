"""Stores past the caches, for results that are larger than what a cache holds."""

import math
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known
from tvm_iree_ext.schedules.lines import Flat

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.streams import FENCE, PART_BYTES, stream_name
from tvm_iree_ext.target.cpu import cpu_features

LOWERED = ("bool", "bfloat16")
"""Types that TVM turns into others while it lowers: they are stored as usual."""

# Results from this size on are stored past the caches.  Measured for pack: results of 4 MiB
# are then slower to write, of 16 as fast, of 36 and 64 faster by 1.2 and 1.7.
_STREAMED_BYTES = 32 << 20


def streams(op: Op, target: Target) -> bool:
    """Whether the results of an op are better stored past the caches of a target."""
    x86 = cpu_features(target).name != "NEON"  # elsewhere nobody has measured it
    results = op.signature.results
    if not x86 or op.signature.symbols or any(one.dtype in LOWERED for one in results):
        return False
    sizes = (
        math.prod(int(extent) for extent in one.shape) * item_bytes(one.dtype) for one in results
    )
    return sum(sizes) >= _STREAMED_BYTES


def begins_parts(count: Index, dtype: str) -> bool:
    """Whether rows of so many elements all begin where a vector may be stored past the caches."""
    number = known(count)
    return number is not None and number * item_bytes(dtype) % PART_BYTES == 0


def stream(buffer: Any, value: Expr, first: Index, lanes: int) -> None:
    """Store a vector of words of a flat buffer from ``first`` on, past the caches.

    One that is too short goes the usual way.
    """
    item = item_bytes(str(buffer.dtype))
    if lanes * item < PART_BYTES:
        I.buffer_store(buffer, value, [emit.run(first, lanes)])
        return
    word = f"uint{item * 8}x{lanes}"
    if str(value.ty.dtype) != word:
        value = tirx.reinterpret(word, value)
    place = tirx.address_of(buffer[i64(first)])
    I.evaluate(tirx.call_extern("void", stream_name(item * 8, lanes), place, value))


@dataclass(frozen=True)
class Streamed(Flat):
    """A result whose vectors are stored past the caches."""

    def store(self, position: Index, value: Expr, lanes: int = 1) -> None:
        """Write an element or run, given in the held type."""
        stream(self.buffer, emit.cast(value, self.dtype), position, lanes)


def result(buffer: Any, streaming: bool) -> Flat:
    """A result that is stored past the caches, or as usual."""
    return Streamed(buffer) if streaming else Flat(buffer)


def fence() -> None:
    """Let other tasks see what this one has stored past the caches."""
    I.evaluate(tirx.call_extern("void", FENCE))
