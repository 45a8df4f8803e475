"""Non-temporal stores, for results that with their operands are more than what a cache holds.

Vectors go there at once where they fill lines one after the other.  Others are gathered in scratch,
some kilobytes that stay in the first cache, and go from there in runs.
"""

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.codegen.cpu.non_temporal_stores import COPY, FENCE, LINE, PART_BYTES, stream_name
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64
from tvm_iree_ext.schedules.shared.lines import FlatOperand
from tvm_iree_ext.targets.cpu import cpu_features

# Shorter runs are mostly the lines at their ends, which are stored as usual.
_LEAST_RUN_BYTES = 1024

# Operands and results of this size are worth it where the size of the last cache is not known.
# Measured on a Granite Rapids: pack of 72 and 128 MiB is faster by 1.2 and 1.7, of 32 as fast;
# im2col of 148 by 2.3, and of 51 slower by 1.1.  Where it is known, they are once they exceed it:
# with one of 32 MiB, on a Zen 3, both are slower by 1.4 at 8 MiB, as fast at 14, and faster by 1.7
# to 1.8 from 32 on; on a Zen 4 pack is slower by 1.35 at 8, as fast at 20, and faster by 1.5 at 28
# and by 1.6 to 1.8 from 44 on.
_STREAMED_BYTES = 64 << 20


def streams(op: Op, target: Target, run: Extent | None = None) -> bool:
    """Whether the results of an op are better stored non-temporally on a target.

    ``run`` is how many elements are stored one after the other, if not all that a task stores.
    """
    features = cpu_features(target)
    if features.name == "NEON" or op.signature.symbols:  # on Arm nobody has measured it
        return False
    if op.bytes() < (features.last_cache_bytes or _STREAMED_BYTES):
        return False
    item = min(item_bytes(one.dtype) for one in op.signature.results)
    return run is None or (isinstance(run, int) and run * item >= _LEAST_RUN_BYTES)


def begins_parts(count: Extent | None, dtype: str) -> bool:
    """Whether runs of so many elements all begin where a vector may be stored non-temporally."""
    return isinstance(count, int) and count * item_bytes(dtype) % PART_BYTES == 0


def stream(buffer: Any, value: Expr, first: Index, lanes: int) -> None:
    """Store a vector of words of a flat buffer from ``first`` on, non-temporally.

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
class Streamed(FlatOperand):
    """A result whose vectors are stored non-temporally."""

    def store(self, position: Index, value: Expr, lanes: int = 1) -> None:
        """Write an element or run, given in the held type."""
        stream(self.buffer, emit.cast(value, self.dtype), position, lanes)


def result(buffer: Any, streaming: bool) -> FlatOperand:
    """A result that is stored non-temporally, or as usual."""
    return Streamed(buffer) if streaming else FlatOperand(buffer)


def stream_run(target: Any, to: Index, source: Any, start: Index, count: Index) -> None:
    """Copy ``count`` elements to a flat buffer of the same type, by non-temporal stores."""
    size = i64(count) * i64(item_bytes(str(target.dtype)))
    places = [tirx.address_of(b[i64(at)]) for b, at in ((target, to), (source, start))]
    I.evaluate(tirx.call_extern("void", COPY, *places, size))


def next_line(buffer: Any, first: Index, stop: Index) -> Expr:
    """The position from ``first`` on, or ``stop`` before it, at which a line of a cache begins."""
    ahead = tirx.call_extern("int64", LINE, tirx.address_of(buffer[i64(first)]))
    return I.Bind(emit.smaller(first + ahead // item_bytes(str(buffer.dtype)), stop))


def fence() -> None:
    """Let other tasks see what this one has stored non-temporally."""
    I.evaluate(tirx.call_extern("void", FENCE))
