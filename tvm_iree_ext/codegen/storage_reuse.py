"""Let buffers of one kind share memory where their lifetimes prove that they may.

TVM's ``StorageRewrite`` does so, too, and more: it computes one buffer in the place of another that
the same loop reads, which is wrong where vectors overlap, and it makes buffers of vectors of those
whose accesses have one width, rounding places that are no multiple of it and passing over views.
Here nothing is computed in place, no type changes, and a view is its buffer.

A buffer's *region* is what its memory lasts for: the body of a parallel loop, a kernel, or else the
function.  Statements are counted in order; a *lifetime* goes from a buffer's first use to its last:

    for i: a[i] = x[i]          a lives
    for i: b[i] = a[i]          a and b live: the loop is one piece, so b is not a
    for i: c[i] = b[i]          b and c live: c may be in a's place
    for i: y[i] = c[i]

A use inside a loop is one of the whole loop, as far out as the region: a turn may read what another
left.  So is one under a condition, of memory that lanes share: they branch each for itself.  A
buffer whose address is taken, or into which is copied asynchronously, shares with none.
"""

from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.intrin.kernel_attributes import OWN_BARRIERS
from tvm_iree_ext.tir.purity import is_pure

_MOST_RATIO = 16  # of extents: a small array is in the stack or in registers, a large one is not
_ADDRESS_OF = ir.Op.get("tirx.address_of")
_BUFFER_DATA = ir.Op.get("tirx.buffer_data")


@tirx.transform.prim_func_pass(opt_level=0, name="tvm_iree_ext.reuse_storage")
def reuse_storage(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Allocate at the start of regions, once for all buffers that may share; after FlattenBuffer.

    An allocation stays where it is if its extents are known there only.
    """
    lifetimes = _Lifetimes(func)
    allocs = {key: _placed(region.memories) for key, region in lifetimes.regions.items()}
    moved = {
        hash(memory.alloc)
        for slots in allocs.values()
        for slot in slots
        for memory in slot.memories
    }
    if not moved:
        return func

    def loop(node: Any, mutator: Any) -> Any:
        new = mutator.default_mutate(node)
        body = _with(allocs.get(hash(node), ()), new.body)
        return tirx.For(
            new.loop_var, new.min, new.extent, new.kind, body,
            new.thread_binding, new.annotations, new.step,
        )  # fmt: skip

    def attr(node: Any, mutator: Any) -> Any:
        new = mutator.default_mutate(node)
        body = _with(allocs.get(hash(node), ()), new.body)
        return tirx.AttrStmt(new.node, new.attr_key, new.value, body)

    def sequence(node: Any, mutator: Any) -> Any:
        kept = [mutator.mutate(one) for one in node.seq if hash(one) not in moved]
        return _sequence(kept)

    def alloc(node: Any, _: Any) -> Any:
        return tirx.Evaluate(0) if hash(node) in moved else node

    body = tvm_ffi.structural_mutate(
        func.body,
        [
            (tirx.For, loop),
            (tirx.AttrStmt, attr),
            (tirx.SeqStmt, sequence),
            (tirx.AllocBuffer, alloc),
        ],
    )
    body = _with(allocs[_FUNCTION], body)
    shared = [slot for slots in allocs.values() for slot in slots if len(slot.memories) > 1]
    renamed = {
        hash(memory.alloc.buffer): slot.alloc.buffer for slot in shared for memory in slot.memories
    }
    if renamed:
        body = tvm_ffi.structural_map(body, (ir.Var, lambda var: renamed.get(hash(var), var)))
    return func.with_body(body)


_FUNCTION = 0  # the key of the region that is no statement


@dataclass
class _Span:
    """Statements by their numbers, from the first to the last."""

    start: int
    end: int


@dataclass(eq=False)
class _Lifetime:
    """Statement that memory lasts for; ``depth`` counts compound statements up to it."""

    depth: int
    memories: list["_Allocation"] = field(default_factory=list)


@dataclass(eq=False)
class _Allocation:
    """An allocation, and the spans in which it is used."""

    alloc: Any
    region: _Lifetime
    keeps_place: bool  # is allocated where it stands
    is_pinned: bool = False  # shares with none
    spans: list[_Span] = field(default_factory=list)
    since: int = 0  # the number of the very first use, wherever
    accesses: int = 0
    mentions: int = 0

    @property
    def first(self) -> int:
        """The number of the first statement that uses it."""
        return min((span.start for span in self.spans), default=0)

    @property
    def last(self) -> int:
        """The number of the last."""
        return max((span.end for span in self.spans), default=0)

    @property
    def scope(self) -> str:
        """Storage scope."""
        return str(self.alloc.buffer.scope())

    @property
    def may_share(self) -> bool:
        """Private memory is mostly registers, which compilers allocate by lifetimes."""
        buffer = self.alloc.buffer
        is_plain = len(buffer.shape) == 1 and not buffer.strides and not self.alloc.annotations
        return is_plain and not self.is_pinned and self.scope != "local"


class _Lifetimes:
    """A walk through a function that finds when its buffers are used."""

    def __init__(self, func: tirx.PrimFunc) -> None:
        self.places_barriers = OWN_BARRIERS in (func.attrs or {})
        self.region = _Lifetime(0)
        self.regions: dict[int, _Lifetime] = {
            _FUNCTION: self.region
        }  # by the statements that they are
        self.memories: dict[int, _Allocation] = {}  # by buffers, views among them
        self.bound: dict[int, _Lifetime] = {}  # by variables that statements bind
        self.around: list[tuple[_Span, bool]] = []  # compound statements; whether a condition
        self.now = 0
        self.in_kernel = self.is_async = False
        self._walk(func.body)
        for memory in self.memories.values():
            memory.is_pinned = memory.is_pinned or memory.mentions != memory.accesses

    def _walk(self, node: Any) -> None:
        """Through all but what compound statements contain, for which they walk by themselves."""
        tvm_ffi.structural_walk(
            node,
            [
                (ir.Var, self._mention),
                (TensorLoad, lambda load: self._use(load.source)),
                (tirx.BufferStore, self._store),
                (tirx.Bind, self._bind),
                (ir.Call, self._call),
                (tirx.For, self._loop),
                (tirx.While, lambda loop: self._within(loop.condition, loop.body)),
                (tirx.IfThenElse, self._condition),
                (tirx.AttrStmt, self._attr),
                (tirx.AllocBuffer, self._alloc),
                (tirx.DeclBuffer, self._view),
            ],
            order="pre",
        )

    def _mention(self, var: Any) -> None:
        """More than are loads and stores: then its address goes somewhere."""
        if (memory := self.memories.get(hash(var))) is not None:
            memory.mentions += 1

    def _store(self, store: Any) -> None:
        self.now += 1
        self._use(store.buffer)

    def _use(self, buffer: Any) -> None:
        if (memory := self.memories.get(hash(buffer))) is None:
            return
        memory.accesses += 1
        memory.since = memory.since or self.now
        memory.is_pinned = memory.is_pinned or self.is_async
        by_lanes = memory.scope.startswith("shared")
        around = self.around[memory.region.depth :]
        pieces = (span for span, is_condition in around if by_lanes or not is_condition)
        span = next(pieces, None) or _Span(self.now, self.now)
        if not (memory.spans and memory.spans[-1] is span):
            memory.spans.append(span)

    def _call(self, call: Any) -> None:
        """Pin buffers whose address a call may take: one of an op that is not known to be pure."""
        loads = [arg.source for arg in call.args if isinstance(arg, TensorLoad)]
        if loads and (call.op.same_as(_ADDRESS_OF) or not is_pure(call)):
            for memory in filter(None, (self.memories.get(hash(buffer)) for buffer in loads)):
                memory.is_pinned = True

    def _bind(self, bind: Any) -> None:
        self.now += 1
        self.bound[hash(bind.var)] = self.region

    def _within(self, *parts: Any, is_condition: bool = False) -> Any:
        """Through the parts of a compound statement."""
        self.now += 1
        span = _Span(self.now, self.now)
        self.around.append((span, is_condition))
        for part in parts:
            self._walk(part)
        self.around.pop()
        self.now += 1
        span.end = self.now
        return tvm_ffi.WalkResult.SKIP

    def _as_region(self, statement: Any) -> None:
        """Through a statement's body as through what memory lasts for."""
        outer = self.region
        self.region = self.regions.setdefault(hash(statement), _Lifetime(len(self.around) + 1))
        self._within(statement.body)
        self.region = outer

    def _condition(self, branch: Any) -> Any:
        cases = [branch.then_case, branch.else_case]
        given = [case for case in cases if case is not None]
        return self._within(branch.condition, *given, is_condition=True)

    def _loop(self, loop: Any) -> Any:
        self._walk(loop.min)
        self._walk(loop.extent)
        self.bound[hash(loop.loop_var)] = self.region
        if loop.kind == tirx.ForKind.PARALLEL:
            self._as_region(loop)
        else:
            self._within(loop.body)
        return tvm_ffi.WalkResult.SKIP

    def _attr(self, attr: Any) -> Any:
        is_extent = attr.attr_key == "thread_extent"
        self._walk(attr.value)
        if is_extent:
            self.bound[hash(attr.node.var)] = self.region
        else:
            self._walk(attr.node)
        before = self.in_kernel, self.is_async
        self.is_async = self.is_async or str(attr.attr_key).startswith("async_")
        if is_extent and not self.in_kernel:
            self.in_kernel = True
            self._as_region(attr)
        else:
            self._walk(attr.body)
        self.in_kernel, self.is_async = before
        return tvm_ffi.WalkResult.SKIP

    def _alloc(self, alloc: Any) -> Any:
        if (memory := self.memories.get(hash(alloc.buffer))) is not None:
            memory.keeps_place = memory.is_pinned = True  # stands in a statement and its copy
            return tvm_ffi.WalkResult.SKIP
        memory = _Allocation(alloc, self.region, self._keeps_place(alloc.buffer))
        memory.is_pinned = self.places_barriers and memory.scope.startswith("shared")
        self.memories[hash(alloc.buffer)] = memory
        self.region.memories.append(memory)
        return tvm_ffi.WalkResult.SKIP

    def _keeps_place(self, buffer: Any) -> bool:
        """Whether its extents are known in this place of its region only."""
        if all(isinstance(extent, tirx.IntImm) for extent in buffer.shape):
            return False
        unknown: list[bool] = []
        tvm_ffi.structural_walk(
            buffer.shape,
            [
                (ir.Var, lambda var: unknown.append(self.bound.get(hash(var)) is self.region)),
                (TensorLoad, lambda _: unknown.append(True)),
            ],
        )
        return any(unknown)

    def _view(self, view: Any) -> Any:
        """Record a view as an alias of its source buffer."""
        data = view.data
        if isinstance(data, ir.Call) and data.op.same_as(_BUFFER_DATA):
            if (memory := self.memories.get(hash(data.args[0]))) is not None:
                self.memories[hash(view.buffer)] = memory
        else:
            self._walk(data)
        return tvm_ffi.WalkResult.SKIP


@dataclass
class _Slot:
    """An allocation of memories that live one after the other."""

    memories: list[_Allocation]

    def __post_init__(self) -> None:
        self.alloc = self.memories[0].alloc

    def misfit(self, memory: _Allocation) -> int | None:
        """By how many elements they differ; None for memory that must not be in here."""
        last = self.memories[-1]
        if last.last >= memory.first:
            return None
        ours, theirs = self.alloc.buffer, memory.alloc.buffer
        if ours.scope() != theirs.scope() or str(ours.dtype) != str(theirs.dtype):
            return None
        sizes = [buffer.shape[0] for buffer in (ours, theirs)]
        if all(isinstance(size, tirx.IntImm) for size in sizes):
            small, large = sorted(map(int, sizes))
            return large - small if large <= _MOST_RATIO * small else None
        return 0 if tvm_ffi.structural_equal(*sizes) else None

    def add(self, memory: _Allocation) -> None:
        """Make room for all: of the larger extent and alignment."""
        ours, theirs = self.alloc.buffer, memory.alloc.buffer
        larger = max(ours, theirs, key=_extent)
        self.alloc = tirx.AllocBuffer(
            tirx.decl_buffer(
                larger.shape, str(larger.dtype), larger.name, scope=larger.scope(),
                data_alignment=max(int(ours.data_alignment), int(theirs.data_alignment)),
            )
        )  # fmt: skip
        self.memories.append(memory)


def _extent(buffer: Any) -> int:
    return int(buffer.shape[0]) if isinstance(buffer.shape[0], tirx.IntImm) else 0


def _placed(memories: list[_Allocation]) -> list[_Slot]:
    """The allocations of a region, in the order in which they are used first."""
    slots: list[_Slot] = []
    shared: list[_Slot] = []  # of which others may have a part: registers are many, and are not
    for memory in sorted(memories, key=lambda one: one.since):
        if memory.keeps_place:
            continue
        if not memory.may_share:
            slots.append(_Slot([memory]))
            continue
        misfits = [(slot.misfit(memory), slot) for slot in shared]
        free = [(misfit, slot) for misfit, slot in misfits if misfit is not None]
        if free:
            min(free, key=lambda one: one[0])[1].add(memory)
        else:
            shared.append(_Slot([memory]))
            slots.append(shared[-1])
    return slots


def _with(slots: Any, body: Any) -> Any:
    return _sequence([*(slot.alloc for slot in slots), body])


def _sequence(statements: list[Any]) -> Any:
    """The statements as one; TVM takes no sequence of fewer than two."""
    if len(statements) > 1:
        return tirx.SeqStmt(statements)
    return statements[0] if statements else tirx.Evaluate(0)
