"""Products beside copies, on AMD's GPUs: the order of a loop that has two tiles in shared memory.

While one tile is multiplied the next one is written to the other's place, and nobody reads what
the same pass has written:

    before:  barrier; writes of the next tile; loads of the one after; barrier; reads; products
    after:   barrier; the first reads; products, between them reads for products some way ahead,
             a write now and then, and behind it the load that its registers are free for

LLVM's scheduler would put reads right before the products that take them, and wait.  Fences, which
are no instructions, keep the order.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.codegen.gpu.passes.amd_branches import scheduler_fence
from tvm_iree_ext.codegen.gpu.passes.amd_epilogue import multiplies
from tvm_iree_ext.codegen.gpu.passes.amd_memory import (
    is_workgroup_barrier,
    loads_memory,
    plain_barrier,
)
from tvm_iree_ext.tir.function_body import with_body

_AHEAD = 4  # products between a read and what takes it: 128 cycles, of 32 rows and columns
_FIRST_WRITE, _LAST_WRITE = 0.2, 0.8  # of the products: the last ones hide that writes take time

Span = tuple[int, int, int]  # a buffer of registers, the first element and the one behind the last


@dataclass
class _Pass:
    """The statements of a pass of the loop, by what they do."""

    binds: list[Any] = field(default_factory=list)
    writes: list[Any] = field(default_factory=list)
    loads: list[Any] = field(default_factory=list)
    reads: list[Any] = field(default_factory=list)
    products: list[Any] = field(default_factory=list)


@tirx.transform.prim_func_pass(opt_level=0)
def order_products(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """The kernel with its loops of two tiles in this order."""
    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.For, _ordered)))


def _ordered(loop: Any) -> Any:
    if not isinstance(loop.body, tirx.SeqStmt):
        return loop
    found = _parted(list(loop.body.seq))
    if found is None or not _apart(loop.loop_var, found.writes, found.reads):
        return loop
    body = tirx.SeqStmt([*found.binds, plain_barrier(), *_interleaved(found)])
    return tirx.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding,
        loop.annotations,
    )  # fmt: skip


def _parted(statements: Sequence[Any]) -> _Pass | None:
    """The statements of such a pass; None for any other."""
    found = _Pass()
    barriers = 0
    for statement in statements:
        if isinstance(statement, tirx.Bind) and not _sources(statement.value):
            found.binds.append(statement)
        elif is_workgroup_barrier(statement):
            barriers += 1
        else:
            kind = _kind(statement)
            if kind is None or barriers != (1 if kind in ("writes", "loads") else 2):
                return None
            if kind == "reads" and _reread(found, statement):
                return None
            getattr(found, kind).append(statement)
    complete = barriers == 2 and found.writes and found.reads and found.products
    return found if complete else None


def _kind(statement: Any) -> str | None:
    """What a statement does, by the name of its list; None for anything else."""
    if not isinstance(statement, tirx.BufferStore) or len(statement.indices) != 1:
        return None
    target, sources = statement.buffer.scope(), _sources(statement.value)
    if target == "shared":
        return "writes" if sources <= {"local"} else None
    if target != "local" or _spans(statement) is None:
        return None
    if multiplies(statement):
        return "products" if sources <= {"local"} else None
    return {frozenset({"shared"}): "reads", frozenset({"global"}): "loads"}.get(frozenset(sources))


def _sources(value: Any) -> set[str]:
    """The scopes of memory that an expression reads."""
    found: set[str] = set()
    tvm_ffi.structural_walk(
        value,
        [
            (TensorLoad, lambda load: found.add(str(load.source.scope()))),
            (ir.Call, lambda call: found.add("global") if loads_memory(call) else None),
        ],
    )
    return found


def _spans(statement: Any) -> tuple[list[Span], Span] | None:
    """Registers that a statement reads and writes; None where an index is no number."""
    places = [_span(statement.buffer, statement.indices[0])]
    tvm_ffi.structural_walk(
        statement.value,
        (
            TensorLoad,
            lambda load: (
                places.append(_span(load.source, load.indices[0]))
                if load.source.scope() == "local"
                else None
            ),
        ),
    )
    known = [place for place in places if place is not None]
    return (known[1:], known[0]) if len(known) == len(places) else None


def _span(buffer: Any, index: Any) -> Span | None:
    base, lanes = index, 1
    if isinstance(index, tirx.Ramp):
        if not isinstance(index.stride, tirx.IntImm) or int(index.stride) != 1:
            return None
        base, lanes = index.base, int(index.lanes)
    if not isinstance(base, tirx.IntImm):
        return None
    return hash(buffer), int(base), int(base) + lanes


def _overlap(one: Span, other: Span) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def _reread(found: _Pass, read: Any) -> bool:
    """Whether registers are read into that a product, or another read, has before."""
    _, span = _spans(read) or ([], (0, 0, 0))
    earlier = ((_spans(one) or ([], (0, 0, 0)))[1] for one in found.reads)
    return any(_overlap(one, span) for one in earlier) or any(
        _takes(one, span) for one in found.products
    )


def _takes(statement: Any, span: Span) -> bool:
    read, _ = _spans(statement) or ([], None)
    return any(_overlap(one, span) for one in read)


def _apart(turn: Any, writes: Sequence[Any], reads: Sequence[Any]) -> bool:
    """Whether writes and reads of a pass are of different halves of each buffer, by turns.

    What is in one half in one turn is half a buffer further, or nearer, in the next.
    """
    analyzer = sym.Analyzer()
    loaded: list[Any] = []
    for one in reads:
        tvm_ffi.structural_walk(one.value, (TensorLoad, loaded.append))
    accesses = [(one.buffer, one.indices[0], -1) for one in writes]
    accesses += [
        (one.source, one.indices[0], 1) for one in loaded if one.source.scope() == "shared"
    ]
    for buffer, index, sign in accesses:
        if len(buffer.shape) != 1 or not isinstance(buffer.shape[0], tirx.IntImm):
            return False
        base = index.base if isinstance(index, tirx.Ramp) else index
        first, second, third = (_in_turn(base, turn, at) for at in (0, 1, 2))
        step = analyzer.simplify(second - first)
        again = analyzer.simplify(third - first)
        half = int(buffer.shape[0]) // 2
        if not (isinstance(step, tirx.IntImm) and int(step) == sign * half):
            return False
        if not (isinstance(again, tirx.IntImm) and int(again) == 0):
            return False
    return True


def _in_turn(index: Any, turn: Any, number: int) -> Any:
    """An index in one turn of a loop; the simplifier does not know bits."""
    value, analyzer = tirx.const(number, str(turn.ty.dtype)), sym.Analyzer()

    def bits(both: Any) -> Any:
        one, other = map(analyzer.simplify, (both.a, both.b))
        if not (isinstance(one, tirx.IntImm) and isinstance(other, tirx.IntImm)):
            return both
        return tirx.const(int(one) & int(other), str(both.ty.dtype))

    own = tvm_ffi.structural_map(index, (ir.Var, lambda one: value if one.same_as(turn) else one))
    return tvm_ffi.structural_map(own, (ir.prim.expr.BitwiseAnd, bits))


def _by_shells(found: _Pass) -> list[tuple[Any, tuple[int, ...]]]:
    """Products, each with the reads that it takes, such that as few reads as can be come first.

    Of rows and columns of fragments: the first of each, then the second ones with all before, and
    so on.  Products that add to the same sums stay in their order, since they take the same rank.
    """
    spans = [(_spans(read) or ([], (0, 0, 0)))[1] for read in found.reads]
    ranks: dict[int, int] = {}
    counted: Counter[int] = Counter()
    for number, span in enumerate(spans):
        ranks[number] = counted[span[0]]
        counted[span[0]] += 1
    taken = [
        tuple(number for number, span in enumerate(spans) if _takes(product, span))
        for product in found.products
    ]
    order = sorted(
        range(len(taken)), key=lambda at: max((ranks[one] for one in taken[at]), default=0)
    )
    return [(found.products[at], taken[at]) for at in order]


def _interleaved(found: _Pass) -> list[Any]:
    """Reads, writes and loads between the products, with fences around them."""
    products = _by_shells(found)
    count = len(products)
    first: dict[int, int] = {}
    for at, (_, taken) in enumerate(products):
        for number in taken:
            first.setdefault(number, at)
    # What may be issued from a product on, in this order; a load behind what frees its registers.
    waiting = [(max(0, at - _AHEAD), 0, found.reads[number], at) for number, at in first.items()]
    loads, places = list(found.loads), _write_places(found, count)
    for number, (write, at) in enumerate(zip(found.writes, places, strict=True)):
        waiting.append((at, 1, write, count))
        held = [one for one in loads if _held(one, found.writes[number + 1 :])]
        waiting += [(at + 1, 2, one, count) for one in loads if one not in held]
        loads = held
    waiting.sort(key=lambda one: one[:2])
    others = len(found.writes) + len(found.loads)
    together = -(-others // max(1, int(count * (1 - _FIRST_WRITE))))
    ordered: list[Any] = []
    for at, (product, _) in enumerate(products):
        must = [one for one in waiting if one[3] <= at or (at == 0 and one[3] < _AHEAD)]
        ready = [one for one in waiting if one not in must and one[0] <= at]
        reads = [one for one in ready if one[1] == 0][: not must]
        now = [*must, *reads, *[one for one in ready if one[1]][:together]]
        if at == count - 1:
            now = waiting
        waiting = [one for one in waiting if one not in now]
        if now:
            ordered += [scheduler_fence(), *(one[2] for one in now), scheduler_fence()]
        ordered.append(product)
    return ordered


def _write_places(found: _Pass, count: int) -> list[int]:
    """The product before which each write stands."""
    span = _LAST_WRITE - _FIRST_WRITE
    shares = (_FIRST_WRITE + span * at / len(found.writes) for at in range(len(found.writes)))
    return [int(share * count) for share in shares]


def _held(load: Any, writes: Sequence[Any]) -> bool:
    """Whether the registers of a load still hold what is to be written."""
    _, span = _spans(load) or ([], (0, 0, 0))
    return any(_takes_any(write, span) for write in writes)


def _takes_any(write: Any, span: Span) -> bool:
    """Whether a write reads registers of a span; those whose places are no numbers are all."""
    found: list[bool] = []

    def see(load: Any) -> None:
        place = _span(load.source, load.indices[0])
        found.append(hash(load.source) == span[0] if place is None else _overlap(place, span))

    tvm_ffi.structural_walk(write.value, (TensorLoad, see))
    return any(found)
