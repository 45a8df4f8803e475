"""Tensor memory (``tcgen05``): columns of 128 lanes, which a workgroup allocates.

Products are added up there while lanes go on, of tiles in shared memory, or with A in tensor
memory, too.  They are done when a barrier is waited for at which a later ``commit`` arrives; then
the columns may be loaded, each subgroup its 32 lanes, and tiles and A overwritten.  Loads are done
after ``wait::ld``, stores after ``wait::st``, and then the columns may be multiplied into, or what
was stored multiplied, by who waits for those that did so.  What waiting orders holds for tensor
memory only from a ``fence::after_thread_sync`` on, and what loads and stores did only for those who
wait for something behind a ``fence::before_thread_sync``.  A lane's products are made in its order.

Products of a pair are of the lane that starts them, and of columns of both workgroups.

Clocks are those of :mod:`.happens_before`, kept for each column.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.simulator.base.findings import BARRIER, BOUNDS, INSTRUCTION, RACE, UNWAITED
from tvm_iree_ext.simulator.base.lane_values import (
    Origin,
    Value,
    element_type,
    over_lanes,
    parts,
    poisoned,
)
from tvm_iree_ext.simulator.base.simulated_memory import SimulatedMemory
from tvm_iree_ext.simulator.base.workgroup_state import NOBODY, WorkgroupState
from tvm_iree_ext.simulator.machine.memory_barriers import Barriers
from tvm_iree_ext.simulator.machine.memory_view import MemoryView
from tvm_iree_ext.simulator.machine.pending_registers import PendingRegisters
from tvm_iree_ext.simulator.machine.shared_tiles import DescribedTile, Log, read_tile
from tvm_iree_ext.simulator.machine.tensor_products import Known, TensorProduct
from tvm_iree_ext.simulator.races.happens_before import HappensBefore, OrderedLog
from tvm_iree_ext.targets.mma.mma_kinds import tvm_dtype

_LANES, _COLUMNS = 128, 512  # PTX ISA, tcgen05: tensor memory of a core
_QUARTER = 32  # lanes that a subgroup reaches
_QUARTERS = _LANES // _QUARTER
_ALLOCATIONS = (32, 64, 128, 256, 512)  # columns
_NEVER = np.iinfo(np.int32).max
_NAME = "tensor memory"


@dataclass
class _Allocation:
    first: int
    columns: int
    subgroup: int  # that made it
    clock: int  # of that, from which on others may know of it

    @property
    def all(self) -> slice:
        return slice(self.first, self.first + self.columns)


class _Accesses:
    """Loads, or stores, of each subgroup: the clock from which others may know of their end."""

    def __init__(self, verb: str, state: WorkgroupState, order: HappensBefore) -> None:
        self.verb, self._order = verb, order
        self._when: np.ndarray = np.zeros((state.subgroups, _COLUMNS), np.int32)
        self._waited: np.ndarray = np.zeros((state.subgroups, _COLUMNS), bool)

    def start(self, subgroup: int, columns: slice) -> None:
        """They are under way."""
        self._when[subgroup, columns] = _NEVER
        self._waited[subgroup, columns] = False

    def waited(self, subgroup: int) -> None:
        """The subgroup waited for its own."""
        self._waited[subgroup] |= self._when[subgroup] == _NEVER

    def fenced(self, subgroup: int) -> None:
        """Who waits for what the subgroup does next knows of those that it waited for."""
        here = self._waited[subgroup]
        self._when[subgroup, here] = self._order.clocks[subgroup, subgroup]
        here[:] = False

    def late(self, other: int, columns: slice, known: np.ndarray, *, own: bool) -> int | None:
        """A column of which a subgroup does not know that another's, or its own, are done."""
        when = self._when[other, columns]
        wrong = (when == _NEVER) & ~self._waited[other, columns] if own else when > known[other]
        return columns.start + int(np.argmax(wrong)) if wrong.any() else None


class TensorMemory:
    """Tensor memory of a workgroup, its allocations, and what is under way.

    ``together`` has those of the workgroups that run together, by rank; this one is added.
    """

    def __init__(
        self,
        state: WorkgroupState,
        order: HappensBefore,
        barriers: Barriers,
        together: "list[TensorMemory]",
    ) -> None:
        self._state, self._order, self._barriers = state, order, barriers
        self._together = together
        together.append(self)
        self._group = 0  # workgroups of which all instructions speak; 0 before the first
        self._words: np.ndarray = np.zeros((_LANES, _COLUMNS), np.uint32)
        self._written: np.ndarray = np.zeros((_LANES, _COLUMNS), bool)
        self._allocations: list[_Allocation] = []
        self._no_more = False
        self._products = 0  # commits after which there were products
        self._lane = -1  # that starts products
        self._multiplied: np.ndarray = np.zeros(_COLUMNS, np.int32)
        self._multiplied_from: np.ndarray = np.zeros(_COLUMNS, np.int32)  # as A
        self._loaded = _Accesses("loads", state, order)
        self._stored = _Accesses("stores to", state, order)
        self._party = order.products  # whose products the columns have
        self._known: np.ndarray = np.zeros_like(order.clocks)  # by subgroup, for tensor memory
        self._loads = PendingRegisters(state)

    # Allocations.

    def allocate(
        self, view: MemoryView, index: Value, columns: Any, group: int, mask: Any, statement: int
    ) -> None:
        """A subgroup takes columns; their address goes to shared memory."""
        state = self._state
        self._check_group(group, mask, statement)
        if not state.whole(mask, statement, "tcgen05.alloc"):
            return
        count = int(columns)
        for subgroup in self._order.subgroups_in(state.active(mask)):
            lane = int(subgroup) * state.subgroup_size
            if count not in _ALLOCATIONS or self._no_more:
                state.report(
                    INSTRUCTION, statement, (lane,),
                    "columns are allocated after relinquish_alloc_permit" if self._no_more
                    else f"{count} columns are allocated; expected a power of 2 from 32 to 512",
                    _NAME,
                )  # fmt: skip
                continue
            taken = sorted(self._allocations, key=lambda one: one.first)
            first = 0
            for one in taken:
                if one.first - first >= count:
                    break
                first = one.first + one.columns
            if first + count > _COLUMNS:
                held = sum(one.columns for one in taken)
                state.report(
                    BARRIER, statement, (lane,),
                    f"subgroup {subgroup} waits for ever for {count} columns of tensor memory, of"
                    f" which its workgroup has {held}", _NAME,
                )  # fmt: skip
                continue
            made = _Allocation(first, count, int(subgroup), _NEVER)
            self._allocations.append(made)
            self._written[:, made.all] = False
            view.store(state, index, np.uint32(first), mask, statement)

    def allocate_no_more(self, mask: Any) -> None:
        """The workgroup allocates nothing from now on."""
        if mask is not NOBODY:
            self._no_more = True

    def _check_group(self, group: int, mask: Any, statement: int) -> None:
        """All instructions of a kernel are of as many workgroups (PTX ISA, tcgen05)."""
        if mask is NOBODY:
            return
        self._group = self._group or group
        if group != self._group or group > len(self._together):
            self._state.report(
                INSTRUCTION, statement, (0,),
                f"an instruction of cta_group::{group} in a kernel of clusters of"
                f" {len(self._together)}, whose others are of cta_group::{self._group}", _NAME,
            )  # fmt: skip

    def free(self, address: Value, columns: Any, group: int, mask: Any, statement: int) -> None:
        """A subgroup gives columns back."""
        state = self._state
        self._check_group(group, mask, statement)
        if not state.whole(mask, statement, "tcgen05.dealloc"):
            return
        for subgroup, first in self._addresses(address, mask, statement):
            lane = subgroup * state.subgroup_size
            found = [
                one for one in self._allocations
                if (one.first, one.columns) == (first, int(columns))
            ]  # fmt: skip
            if not found:
                state.report(
                    INSTRUCTION, statement, (lane,),
                    f"{int(columns)} columns from {first} on are freed, which are no allocation",
                    _NAME, first,
                )  # fmt: skip
                continue
            self._check_products(subgroup, found[0].all, "freed", lane, statement)
            self._check_accesses(subgroup, found[0].all, "freed", lane, statement)
            self._allocations.remove(found[0])

    def _addresses(self, address: Value, mask: Any, statement: int) -> list[tuple[int, int]]:
        """The subgroups of a mask, each with its address."""
        state = self._state
        spelt = over_lanes(
            state.decided("an address in tensor memory", address, mask, statement), state.lanes
        )
        found = []
        for subgroup in self._order.subgroups_in(state.active(mask)):
            lanes = np.flatnonzero(state.active(mask))
            mine = lanes[lanes // state.subgroup_size == subgroup]
            if (spelt[mine] != spelt[mine[0]]).any():
                state.report(
                    INSTRUCTION, statement, mine,
                    "the lanes of a subgroup give different addresses in tensor memory", _NAME,
                )  # fmt: skip
            found.append((int(subgroup), int(spelt[mine[0]])))
        return found

    def _inside(
        self, subgroup: int, first: int, count: int, lane: int, statement: int,
        by: "TensorMemory | None" = None,
    ) -> bool:  # fmt: skip
        """Whether columns are of an allocation of which the subgroup knows, ``by`` whose."""
        known = self._known_by(subgroup, by)
        for one in self._allocations:
            if one.first <= first and first + count <= one.first + one.columns:
                mine = by is None and one.subgroup == subgroup
                if not mine and one.clock > known[one.subgroup]:
                    self._state.report(
                        RACE, statement, (lane,),
                        f"subgroup {subgroup} uses columns from {first} on, which subgroup"
                        f" {one.subgroup} allocates, with nothing to order the two", _NAME, first,
                    )  # fmt: skip
                return True
        self._state.report(
            BOUNDS, statement, (lane,),
            f"columns {first}..{first + count - 1} of tensor memory are not allocated", _NAME,
            first,
        )  # fmt: skip
        return False

    def _known_by(self, subgroup: int, by: "TensorMemory | None") -> np.ndarray:
        """What a subgroup, of this workgroup or the other, knows for tensor memory."""
        return self._known[subgroup] if by is None else self._order.seen(by._known[subgroup])

    # Products.

    def multiply(
        self,
        kind: str,
        address: Value,
        descriptors: tuple[Value, Value, Value],
        more: Value,
        group: int,
        mask: Any,
        statement: int,
        *,
        lhs_in_tensor_memory: bool = False,
    ) -> None:
        """A lane starts a product, of its workgroup or of all that run together.

        Args:
            kind: of the instruction, such as ``f16``.
            address: of the first column.
            descriptors: of A and B, and of the product's shape and types.
            more: whether it is added to what is there.
            group: how many workgroups.
            mask: of the lane.
            statement: its number.
            lhs_in_tensor_memory: whether A's descriptor is an address there.
        """
        if mask is NOBODY:
            return
        self._check_group(group, mask, statement)
        lane = self._starting(mask, statement)
        values = (
            ("an address in tensor memory", address),
            ("a matrix descriptor", descriptors[0]),
            ("a matrix descriptor", descriptors[1]),
            ("an instruction descriptor", descriptors[2]),
            ("whether to accumulate", more),
        )
        first, *tiles, code, added = self._spelt(values, lane, mask, statement)
        product = TensorProduct.of(kind, code, group)
        if product is None:
            self._report_code(kind, code, lane, statement)
            return
        sides: tuple[list[Known], list[Known]] = ([], [])  # of each workgroup
        for side, tile, (outer, dtype, k_major) in zip(sides, tiles, product.operands, strict=True):
            if lhs_in_tensor_memory and side is sides[0]:
                subgroup = lane // self._state.subgroup_size
                weights = self._left(product, tile, subgroup, lane, statement)
                if weights is None:
                    return
                side.append(weights)
                continue
            place = self._place(tile, lane, statement)
            if place is None:
                return
            at = place.addresses(outer, product.k, product.bits, k_major=k_major)
            for member in self._members(group):
                log = self._log if member is self else self._log_for_other()
                read = read_tile(member._state, at, dtype, "tcgen05.mma", lane, statement, log)
                side.append(read[:2])
        elements, known = (np.concatenate(part) for part in zip(*sides[1], strict=True))
        self._add(product, sides[0], (elements, known), first, added, lane, statement)

    def _members(self, group: int) -> "list[TensorMemory]":
        """Those of so many workgroups, this one's among them."""
        return self._together if group > 1 else [self]

    def _starting(self, mask: Any, statement: int) -> int:
        """The lane that starts something; it is always the same."""
        lanes = np.flatnonzero(self._state.active(mask))
        lane = int(lanes[0])
        if len(lanes) > 1 or self._lane not in (-1, lane):
            who = lanes if len(lanes) > 1 else (self._lane, lane)
            self._state.report(
                INSTRUCTION, statement, who,
                f"lanes {int(who[0])} and {int(who[1])} start products, which nothing orders",
            )  # fmt: skip
        self._lane = lane
        return lane

    def _spelt(
        self, values: Iterable[tuple[str, Value]], lane: int, mask: Any, statement: int
    ) -> list[int]:
        """The numbers that a lane gives, each with what it is."""
        state = self._state
        return [
            int(over_lanes(state.decided(what, value, mask, statement), state.lanes)[lane])
            for what, value in values
        ]

    def _report_code(self, kind: str, code: int, lane: int, statement: int) -> None:
        self._state.report(
            INSTRUCTION, statement, (lane,),
            f"the instruction descriptor {code:#x} says no product of kind::{kind}",
        )  # fmt: skip

    def _place(self, tile: int, lane: int, statement: int) -> DescribedTile | None:
        """Where a matrix descriptor says that a tile lies."""
        place = TensorProduct.place(tile)
        if place is None:
            self._state.report(
                INSTRUCTION, statement, (lane,),
                f"the matrix descriptor {tile:#x} is not of this version, or has no swizzle"
                " that there is",
            )  # fmt: skip
        return place

    def _add(
        self,
        product: TensorProduct,
        lhs: Sequence[Known],
        rhs: Known,
        first: int,
        added: int,
        lane: int,
        statement: int,
    ) -> None:
        """Put a product into columns, or add it to what is there; ``lhs`` is of each workgroup."""
        subgroup = lane // self._state.subgroup_size
        members = self._members(len(lhs))
        columns = slice(first, first + product.n)
        for member in members:
            by = None if member is self else self
            if not member._inside(subgroup, first, product.n, lane, statement, by):
                return
            member._check_accesses(subgroup, columns, "multiplied into", lane, statement, by=by)
        for member, rows in zip(members, lhs, strict=True):
            words, written = member._words[:, columns], member._written[:, columns]
            old = (words, written) if added else None
            words[:], written[:] = product.result(rows, rhs, old)
            member._multiplied[columns] = self._products + 1
            member._party = self._order.products
            if member is not self:
                member._party = self._order.others(self._order.products)
        self._state.counts[product.name] += 1

    def _left(
        self, product: TensorProduct, address: int, subgroup: int, lane: int, statement: int
    ) -> Known | None:
        """A from tensor memory: its rows are lanes, and elements along K fill columns."""
        first, row = address & 0xFFFF, address >> 16
        count = product.k * product.bits // 32
        if row or not product.majors[0]:
            self._state.report(
                INSTRUCTION, statement, (lane,),
                f"A begins in lane {row} of tensor memory; expected 0" if row
                else "A in tensor memory has K contiguous; the instruction descriptor says M",
                _NAME, first,
            )  # fmt: skip
            return None
        if not self._inside(subgroup, first, count, lane, statement):
            return None
        columns = slice(first, first + count)
        self._check_products(subgroup, columns, "multiplied", lane, statement)
        self._check_accesses(subgroup, columns, "multiplied", lane, statement, loads=False)
        self._multiplied_from[columns] = self._products + 1
        words = np.ascontiguousarray(self._words[:, columns])
        numbers = words.view(element_type(tvm_dtype(product.a))).astype(np.float64)
        return numbers, np.repeat(~self._written[:, columns], 32 // product.bits, axis=1)

    def _log_for_other(self) -> Log:
        """Note in the other workgroup what products of this one read."""

        def log(
            memory: SimulatedMemory, units: np.ndarray, width: int, lane: int, statement: int
        ) -> None:
            if isinstance(memory.touches, OrderedLog):
                known = self._order.clocks[lane // self._state.subgroup_size]
                memory.touches.read_by_others_products(
                    np.unique(units), self._order.seen(known), lane, self._products + 1, statement
                )

        return log

    def _log(
        self, memory: SimulatedMemory, units: np.ndarray, width: int, lane: int, statement: int
    ) -> None:
        if isinstance(memory.touches, OrderedLog):
            each = np.unique(units)
            memory.touches.read_by_tensor_products(each, lane, self._products + 1, statement)

    def commit(self, view: MemoryView, index: Value, group: int, mask: Any, statement: int) -> None:
        """One arrival when the products that the lane started are done."""
        if mask is not NOBODY:
            done = self.committed(group, mask, statement)
            self._barriers.arrive_with_products(view, index, done, mask, statement)

    def committed(self, group: int, mask: Any, statement: int) -> int:
        """The clock of the products that the lane started so far."""
        self._check_group(group, mask, statement)
        if mask is NOBODY or not self._state.active(mask)[self._lane]:
            return 0
        self._products += 1
        return self._products

    # Loads.

    def load(
        self, targets: list[tuple[Any, int]], address: Value, mask: Any, statement: int
    ) -> None:
        """Subgroups start loads of columns, each lane those of its own lane of tensor memory."""
        state, count = self._state, len(targets)
        if not state.whole(mask, statement, "tcgen05.ld"):
            return
        words = np.zeros((count, state.lanes), np.uint32)
        good = np.ones((count, state.lanes), bool)
        for subgroup, row, columns in self._reached(address, count, "loads", mask, statement):
            lane = subgroup * state.subgroup_size
            self._check_products(subgroup, columns, "loaded", lane, statement)
            self._check_accesses(subgroup, columns, "loaded", lane, statement, loads=False)
            mine = slice(lane, lane + state.subgroup_size)
            words[:, mine] = self._words[row : row + _QUARTER, columns].T
            good[:, mine] = self._written[row : row + _QUARTER, columns].T
            self._loaded.start(subgroup, columns)
        origin = Origin(_NAME, -1, statement)
        for (target, index), word, known in zip(targets, words, good, strict=True):
            value = poisoned(word.view(target.dtype), ~known, origin)
            self._loads.start(target, index, value, mask, "a register before wait::ld", statement)
        state.counts["tcgen05.ld"] += state.subgroups_of(mask)

    def wait_for_loads(self, mask: Any) -> None:
        """What subgroups loaded is in registers."""
        if mask is NOBODY:
            return
        active = self._state.active(mask)
        self._loads.end(active)
        for subgroup in self._order.subgroups_in(active):
            self._loaded.waited(int(subgroup))

    def _reached(
        self, address: Value, count: int, action: str, mask: Any, statement: int
    ) -> Iterator[tuple[int, int, slice]]:
        """Subgroups of a mask that reach columns: each with its first lane, and the columns."""
        for subgroup, at in self._addresses(address, mask, statement):
            lane = subgroup * self._state.subgroup_size
            first, row = at & 0xFFFF, subgroup % _QUARTERS * _QUARTER
            if at >> 16 != row:
                self._state.report(
                    INSTRUCTION, statement, (lane,),
                    f"subgroup {subgroup} {action} lanes of tensor memory from {at >> 16} on; it"
                    f" reaches those from {row} on", _NAME, first,
                )  # fmt: skip
            elif self._inside(subgroup, first, count, lane, statement):
                yield subgroup, row, slice(first, first + count)

    # Stores.

    def store(self, values: list[Value], address: Value, mask: Any, statement: int) -> None:
        """Subgroups start stores to columns, each lane to those of its own lane."""
        state, count = self._state, len(values)
        if not state.whole(mask, statement, "tcgen05.st"):
            return
        split = [parts(over_lanes(value, state.lanes)) for value in values]
        for subgroup, row, columns in self._reached(address, count, "stores to", mask, statement):
            lane = subgroup * state.subgroup_size
            self._check_left(subgroup, columns, lane, statement)
            self._check_products(subgroup, columns, "stored to", lane, statement)
            self._check_accesses(subgroup, columns, "stored to", lane, statement)
            mine, rows = slice(lane, lane + state.subgroup_size), slice(row, row + _QUARTER)
            for at, (word, bad, _) in enumerate(split):
                bits = np.ascontiguousarray(word).view(np.uint32)
                self._words[rows, columns.start + at] = bits[mine]
                known = ~np.broadcast_to(bad, (state.lanes,))
                self._written[rows, columns.start + at] = known[mine]
            self._stored.start(subgroup, columns)
        state.counts["tcgen05.st"] += state.subgroups_of(mask)

    def wait_for_stores(self, mask: Any) -> None:
        """What subgroups stored is in tensor memory."""
        if mask is not NOBODY:
            for subgroup in self._order.subgroups_in(self._state.active(mask)):
                self._stored.waited(int(subgroup))

    # Order.

    def fence_before(self, mask: Any) -> None:
        """What was done so far is known to who waits for what follows."""
        if mask is NOBODY:
            return
        for subgroup in self._order.subgroups_in(self._state.active(mask)):
            clock = self._order.clocks[subgroup, subgroup]
            for accesses in (self._loaded, self._stored):
                accesses.fenced(int(subgroup))
            for one in self._allocations:
                if one.subgroup == subgroup:
                    one.clock = min(one.clock, clock)

    def fence_after(self, mask: Any) -> None:
        """What was waited for so far holds for what follows."""
        if mask is not NOBODY:
            who = self._order.subgroups_in(self._state.active(mask))
            self._known[who] = self._order.clocks[who]

    def _check_products(
        self, subgroup: int, columns: slice, action: str, lane: int, statement: int
    ) -> None:
        late = self._multiplied[columns] > self._known[subgroup, self._party]
        if late.any():
            column = columns.start + int(np.argmax(late))
            self._state.report(
                UNWAITED, statement, (lane,),
                f"column {column} of tensor memory is {action} by subgroup {subgroup} while"
                " tcgen05.mma adds to it, of whose end nothing is known", _NAME, column,
            )  # fmt: skip

    def _check_left(self, subgroup: int, columns: slice, lane: int, statement: int) -> None:
        late = self._multiplied_from[columns] > self._known[subgroup, self._order.products]
        if late.any():
            column = columns.start + int(np.argmax(late))
            self._state.report(
                UNWAITED, statement, (lane,),
                f"column {column} of tensor memory is stored to by subgroup {subgroup} while"
                " tcgen05.mma reads it as A, of whose end nothing is known", _NAME, column,
            )  # fmt: skip

    def _check_accesses(
        self, subgroup: int, columns: slice, action: str, lane: int, statement: int,
        *, loads: bool = True, by: "TensorMemory | None" = None,
    ) -> None:  # fmt: skip
        """That stores to columns are done, and loads of them; of a subgroup's own lanes, where it
        loads or stores itself.  ``by`` is whose subgroup it is, if not this workgroup's.
        """
        known = self._known_by(subgroup, by)
        step = _QUARTERS if action in ("loaded", "stored to") else 1
        for accesses in (self._stored, self._loaded)[: 1 + loads]:
            for other in range(subgroup % step, self._state.subgroups, step):
                own = by is None and other == subgroup
                column = accesses.late(other, columns, known, own=own)
                if column is None:
                    continue
                self._state.report(
                    UNWAITED, statement, (lane,),
                    f"column {column} of tensor memory is {action} while subgroup {other}"
                    f" {accesses.verb} it, of whose end nothing is known", _NAME, column,
                )  # fmt: skip

    def finish(self) -> None:
        """At the end of the kernel."""
        self._loads.finish("tcgen05.ld")
        for one in self._allocations:
            self._state.report(
                INSTRUCTION, -1, (0,),
                f"{one.columns} columns of tensor memory from {one.first} on are never freed",
                _NAME, one.first,
            )  # fmt: skip
