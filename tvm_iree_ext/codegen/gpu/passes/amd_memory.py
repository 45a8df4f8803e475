"""Barriers and loads of AMD's GPUs, written so that LLVM makes right and short code of them.

Three things that TVM's code generation leaves out, rewritten on device TIR right before it runs; no
value changes:

* *Barriers.*  ``s_barrier`` alone does not wait for a subgroup's own accesses of shared memory:
  others could read before it has written.  A barrier gets fences around it, of shared memory alone:
  loads from global memory stay under way.
  Where what was loaded long ago goes from registers to shared memory behind a barrier, one wait for
  all of it stands before the barrier, instead of one for each store.
* *The subgroup's number.*  Where rows of ``threadIdx.x`` are whole subgroups, ``threadIdx.y`` is
  the same for all lanes of one, which LLVM does not know: it is read from the first lane, and what
  follows from it is computed once for the subgroup.
* *Loads from global memory.*  A 64-bit address for each load and lane takes two vector instructions
  and two registers.  The index is cut instead into what all lanes of a subgroup share (workgroup,
  loop) and what a lane adds, which loops do not change:

      lhs[blockIdx_y * 65536 + k * 64 + threadIdx_x // 8 * 512 + threadIdx_x % 8 * 8 + 4096]
          shared by lanes: blockIdx_y * 131072 + k * 128    a lane's: the rest, in bytes

  and becomes an access through a buffer resource: base and size in scalar registers, plus a scalar
  offset, plus a lane's 32-bit offset.  A load under a condition, with 0 where it does not hold,
  needs no branch: the lane's offset is then one that is out of the buffer, for which the hardware
  gives 0.

The functions that stand for these are LLVM IR (:mod:`.amd_memory_functions`), linked and inlined.
"""

from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import DataType, ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.target import Target
from tvm.target import codegen as llvm

from tvm_iree_ext.codegen.gpu.passes.amd_memory_functions import (
    BARRIER,
    GUARDED_LOAD,
    LOAD,
    LOAD_BYTES,
    LOADED_BARRIER,
    MOST,
    UNITS,
    WAITS,
    load_name,
)
from tvm_iree_ext.targets.gpu import subgroup_size
from tvm_iree_ext.tir.purity import is_guard

_MOST_INDEX = 1 << 62
_STORAGE_SYNC = ir.Op.get("tirx.tvm_storage_sync")
_EXTERN = ir.Op.get("tirx.call_extern")
_INTRINSIC = ir.Op.get("tirx.call_llvm_intrin")
_REINTERPRET = ir.Op.get("tirx.reinterpret")


def rewrite_memory(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    """The kernel with barriers, subgroups and loads as the module says."""
    return _Rewriter(func, target).rewritten()


@dataclass(frozen=True)
class Address:
    """An index, as the sum of what a subgroup's lanes share and of what a lane adds.

    Attributes:
        shared: elements.
        lane: bytes.
        first: elements before the buffer that both count from, as where a window begins there.
    """

    shared: Any
    lane: Any
    first: int = 0


class _Rewriter:
    def __init__(self, func: tirx.PrimFunc, target: Target) -> None:
        self.func = func
        self.size = subgroup_size(target)
        chip = str(target.attrs["mcpu"])
        self.unit = next((u for u, names in UNITS.items() if chip.startswith(names)), "")
        self.waits = next((names for names in WAITS if chip.startswith(names)), "")
        self.analyzer = sym.Analyzer()
        self.threads: dict[int, tuple[str, Any, int]] = {}  # tag, variable, extent
        self.values: dict[int, Any] = {}  # of variables that are plain integers
        self.divergent: set[int] = set()  # variables that lanes of a subgroup may see differently
        self.last_thread: Any = None

    def rewritten(self) -> tirx.PrimFunc:
        tvm_ffi.structural_walk(self.func.body, [(tirx.AttrStmt, self._see_thread)], order="pre")
        for identity, (tag, _, _) in self.threads.items():
            if tag == "threadIdx.x" or (tag.startswith("threadIdx") and not self.whole_subgroups):
                self.divergent.add(identity)
        tvm_ffi.structural_walk(
            self.func.body,
            [(tirx.Bind, self._see_binding), (tirx.For, self._see_loop)],
            order="pre",
        )
        rules: list[Any] = [(ir.Call, self._call)]
        if self.waits:
            rules.append((tirx.SeqStmt, self._sequence))
        if self.unit:
            rules.append((TensorLoad, self._load))
        body = tvm_ffi.structural_map(self.func.body, rules)
        if self.whole_subgroups:
            body = self._with_subgroups(body)
        return self.func.with_body(body)

    @property
    def whole_subgroups(self) -> bool:
        """Whether a row of ``threadIdx.x`` is one subgroup, or several."""
        extents = [extent for tag, _, extent in self.threads.values() if tag == "threadIdx.x"]
        return bool(extents) and all(extent and extent % self.size == 0 for extent in extents)

    def _see_thread(self, attr: Any) -> None:
        if attr.attr_key != "thread_extent":
            return
        var, static = attr.node.var, isinstance(attr.value, tirx.IntImm)
        extent = int(attr.value) if static else 0
        self.threads[hash(var)] = (str(attr.node.thread_tag), var, extent)
        self.analyzer.bind(var, ir.Range.from_min_extent(0, attr.value), allow_override=True)
        self.last_thread = attr

    def _see_binding(self, bind: Any) -> None:
        """Plain integers are put where they are used; of others nothing is known."""
        if _plain(bind.value):
            if _divided(bind.value) and not self._diverges(self._inlined(bind.value)):
                self._bound(bind.var, self._least(bind.value), self._most(bind.value))
                return  # computed once
            self.values[hash(bind.var)] = self._inlined(bind.value)
        elif _of_loads(bind.value) and not self._diverges(self._inlined(bind.value)):
            self._bound(bind.var, self._least(bind.value))
        elif _is_of_first_lane(bind.value):
            self._bound(bind.var, 0)
        else:
            self.divergent.add(hash(bind.var))

    def _bound(self, var: Any, least: int, most: int = MOST - 2) -> None:
        """A number from ``least`` to ``most``, where it is not below 0."""
        dtype = str(var.ty.dtype)
        most = min(most, MOST - 2) if dtype == "int32" else most
        if 0 <= least <= most:
            first, extent = (tirx.const(one, dtype) for one in (least, most - least + 1))
            bounds = ir.Range.from_min_extent(first, extent)
            self.analyzer.bind(var, bounds, allow_override=True)

    def _see_loop(self, loop: Any) -> None:
        if self._diverges(self._inlined(loop.min)) or self._diverges(self._inlined(loop.extent)):
            self.divergent.add(hash(loop.loop_var))
        bounds = ir.Range.from_min_extent(loop.min, loop.extent)
        self.analyzer.bind(loop.loop_var, bounds, allow_override=True)

    def _inlined(self, value: Any) -> Any:
        return tvm_ffi.structural_map(value, (ir.Var, lambda var: self.values.get(hash(var), var)))

    def _diverges(self, value: Any) -> bool:
        found: list[bool] = []
        tvm_ffi.structural_walk(
            value,
            [
                (ir.Var, lambda var: found.append(hash(var) in self.divergent)),
                (TensorLoad, lambda load: found.append(not _is_word(load))),
            ],
        )
        return any(found)

    def _call(self, call: Any) -> Any:
        if call.op.same_as(_STORAGE_SYNC) and str(call.args[0].value).startswith("shared"):
            return tirx.call_extern("int32", BARRIER)
        if is_guard(call):
            return self._guarded(call)
        return call

    def _guarded(self, choice: Any) -> Any:
        """A load under a condition without a branch; its children are rewritten already."""
        inside, value, other = choice.args
        load = value
        if isinstance(load, ir.Call) and load.op.same_as(_REINTERPRET):
            (load,) = load.args
        if not (isinstance(load, ir.Call) and load.op.same_as(_EXTERN) and _is_zero(other)):
            return choice
        name, *arguments = load.args
        if not name.value.startswith(LOAD) or str(inside.ty.dtype) != "bool":
            return choice
        name = name.value.replace(LOAD, GUARDED_LOAD)
        load = tirx.call_extern(str(load.ty.dtype), name, *arguments, inside)
        dtype = str(value.ty.dtype)
        return load if str(load.ty.dtype) == dtype else tirx.reinterpret(dtype, load)

    def _sequence(self, sequence: Any) -> Any:
        """One wait before a barrier, for all that is stored behind it from registers."""
        statements = list(sequence.seq)
        for at, statement in enumerate(statements):
            if _is_barrier(statement) and _stores_of_registers(statements[at + 1 :]) > 1:
                name = f"{LOADED_BARRIER}_{self.waits}"
                statements[at] = tirx.Evaluate(tirx.call_extern("int32", name))
        return tirx.SeqStmt(statements)

    def _load(self, load: Any) -> Any:
        buffer, (*outer, index) = load.source, load.indices
        dtype, held = DataType(str(load.ty.dtype)), DataType(str(buffer.dtype))
        lanes, base = 1, index
        if isinstance(index, tirx.Ramp):
            lanes, base = int(index.lanes), index.base
            if int(index.stride) != 1:
                return load
        elif int(index.ty.dtype.lanes) > 1:
            return load
        moved = dtype.bits * dtype.lanes // 8
        if buffer.scope() != "global" or outer or moved not in LOAD_BYTES or dtype.bits % 8:
            return load
        element = held.bits * held.lanes // 8
        address = self.address(base, element, is_wide=not _within(buffer, element, 0))
        if address is None or lanes * element != moved or str(dtype).startswith("boolx"):
            return load
        first: Any = tirx.const(-address.first * element, "int64")
        shared = address.shared
        if not _within(buffer, element, address.first):
            first = _as(shared, "int64") * element + first
            shared = tirx.const(0, "int32")
        else:
            shared = _as(shared, "int32") * element
        words = moved // 4
        words_type = {1: "int8", 2: "int16"}.get(moved, f"int32x{words}" if words > 1 else "int32")
        # Wide where extents are known only later; both are below 2**31.
        offsets = map(_as_word, (shared, address.lane))
        name = load_name(self.unit, moved)
        value = tirx.call_extern(words_type, name, buffer.data, first, *offsets)
        if _is_word(load) and not self._diverges(self._inlined(base)):
            return _of_first_lane(value)
        if str(dtype) == "bool":
            return value != tirx.const(0, words_type)
        return value if str(dtype) == words_type else tirx.reinterpret(str(dtype), value)

    def address(self, index: Any, element_bytes: int, *, is_wide: bool = False) -> Address | None:
        """The parts of an index: elements that lanes share, bytes that a lane adds, from 0.

        None where a part may be negative but for a number, or a lane's is too large: then it stays
        as it is.  What lanes share may be negative where it ``is_wide``, a number of 64 bits.
        """
        parts: dict[str, Any] = dict.fromkeys(("shared", "lane", "number"), tirx.const(0, "int32"))
        terms = _terms(self._inlined(index), 1)
        parted = [(part, factor) for term, factor in terms for part in self._apart(term)]
        for term, factor in parted:
            name = "number" if isinstance(term, tirx.IntImm) else "shared"
            name = "lane" if self._diverges(term) else name
            parts[name] = parts[name] + term * factor
        first = max(0, -self._least(parts["number"]))
        parts["number"] = parts["number"] + first
        shared, lane = parts["shared"], parts["lane"] + parts["number"]
        if self._least(shared) < 0:  # as where a loop counts down
            shared, lane = shared + parts["number"], parts["lane"]
        shared, lane = self.analyzer.simplify(shared), self.analyzer.simplify(lane)
        most = int(self.analyzer.const_int_bound(lane).max_value)
        if self._least(lane) < 0 or most * element_bytes >= MOST:
            return None
        if self._least(shared) < 0 and not is_wide:
            return None
        lane = _as(self.analyzer.simplify(lane * element_bytes), "int32")
        return Address(shared, lane, first)

    def _apart(self, term: Any) -> list[Any]:
        """A row that is the last where it would be beyond, as the sum of two such: the first row
        of the subgroup, and what a lane adds up to the last.
        """
        if not isinstance(term, tirx.Min) or not self._diverges(term):
            return [term]
        row, last = (term.b, term.a) if self._diverges(term.b) else (term.a, term.b)
        dtype, zero = str(term.ty.dtype), tirx.const(0, str(term.ty.dtype))
        begin, lane = zero, zero
        for part, factor in _terms(row, 1):
            if self._diverges(part) or isinstance(part, tirx.IntImm):
                lane = lane + part * factor
            else:
                begin = begin + part * factor
        bound = self.analyzer.const_int_bound(lane)
        if self._diverges(last) or int(bound.min_value) < 0 or int(bound.max_value) >= MOST:
            return [term]
        first = tirx.min(begin, last)
        most = tirx.max(tirx.min(last - first, tirx.const(int(bound.max_value), dtype)), zero)
        return [first, _as(tirx.min(_as_word(lane), _as_word(most)), dtype)]

    def _least(self, value: Any) -> int:
        return int(self.analyzer.const_int_bound(self.analyzer.simplify(value)).min_value)

    def _most(self, value: Any) -> int:
        bound = self.analyzer.const_int_bound(self.analyzer.simplify(value))
        return min(int(bound.max_value), _MOST_INDEX)

    def _with_subgroups(self, body: Any) -> Any:
        """``threadIdx.y`` and ``threadIdx.z`` become the first lane's, bound inside all threads."""
        mine = [
            (var, ir.Var(f"{var.name}_of_subgroup", var.ty))
            for tag, var, _ in self.threads.values()
            if tag in ("threadIdx.y", "threadIdx.z")
        ]
        if not mine:
            return body
        renamed = {hash(var): new for var, new in mine}
        innermost = self.last_thread.node.var

        def bound(attr: Any) -> Any:
            if attr.attr_key != "thread_extent" or not attr.node.var.same_as(innermost):
                return attr
            inside = tvm_ffi.structural_map(
                attr.body, (ir.Var, lambda var: renamed.get(hash(var), var))
            )
            binds = [tirx.Bind(new, _of_first_lane(var)) for var, new in mine]
            return tirx.AttrStmt(
                attr.node, attr.attr_key, attr.value, tirx.SeqStmt([*binds, inside])
            )

        return tvm_ffi.structural_map(body, (tirx.AttrStmt, bound))


def _is_of_first_lane(value: Any) -> bool:
    """Whether a schedule takes a number, which is not below 0, from its subgroup's first lane."""
    if not isinstance(value, ir.Call) or not value.op.same_as(_INTRINSIC):
        return False
    name = llvm.llvm_get_intrinsic_name(int(value.args[0].value))
    return str(name).startswith("llvm.amdgcn.readfirstlane")


def _as_word(value: Any) -> Any:
    return value if str(value.ty.dtype) == "int32" else tirx.Cast("int32", value)


def _of_first_lane(var: Any) -> Any:
    """A thread's id as the first lane has it; wide ones are of functions with extents unknown."""
    dtype = str(var.ty.dtype)
    value = tirx.call_llvm_pure_intrin("int32", "llvm.amdgcn.readfirstlane", _as_word(var))
    return value if dtype == "int32" else tirx.Cast(dtype, value)


def _as(value: Any, dtype: str) -> Any:
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def _is_barrier(statement: Any) -> bool:
    call = statement.value if isinstance(statement, tirx.Evaluate) else None
    name = call.args[0] if isinstance(call, ir.Call) and call.args else None
    return isinstance(name, ir.StringImm) and name.value == BARRIER


def is_workgroup_barrier(statement: Any) -> bool:
    """Whether it is a barrier for shared memory, as :func:`rewrite_memory` makes them."""
    call = statement.value if isinstance(statement, tirx.Evaluate) else None
    name = call.args[0] if isinstance(call, ir.Call) and call.args else None
    return isinstance(name, ir.StringImm) and (
        name.value == BARRIER or name.value.startswith(LOADED_BARRIER)
    )


def plain_barrier() -> tirx.Stmt:
    """A barrier for shared memory that does not wait for loads from global memory."""
    return tirx.Evaluate(tirx.call_extern("int32", BARRIER))


def loads_memory(call: ir.Call) -> bool:
    """Whether a call is a load from global memory, as :func:`rewrite_memory` makes them."""
    name = call.args[0] if call.op.same_as(_EXTERN) and call.args else None
    return isinstance(name, ir.StringImm) and name.value.startswith((LOAD, GUARDED_LOAD))


def _stores_of_registers(statements: list[Any]) -> int:
    """How many stores to shared memory come first, of what was loaded before."""
    count = 0
    for statement in statements:
        if isinstance(statement, tirx.Bind):
            continue
        if not isinstance(statement, tirx.BufferStore):
            break
        if not statement.buffer.scope().startswith("shared"):
            break
        if not _of_registers(statement.value):
            break
        count += 1
    return count


def _of_registers(value: Any) -> bool:
    found: list[bool] = []

    def see(call: Any) -> None:
        found.append(bool(call.args) and str(getattr(call.args[0], "value", "")).startswith("tvm_"))

    tvm_ffi.structural_walk(
        value,
        [(TensorLoad, lambda load: found.append(load.source.scope() != "local")), (ir.Call, see)],
    )
    return not any(found)


def _is_word(load: Any) -> bool:
    """Whether it is a number from global memory, the same for all lanes if its index is.

    Such a number is read from the first lane, and LLVM knows it to be the same.
    """
    return load.source.scope() == "global" and str(load.ty.dtype) == "int32"


def _of_loads(value: Any) -> bool:
    """Whether it is an integer that loads make, and no call."""
    if str(value.ty.dtype) not in ("int32", "int64"):
        return False
    found: list[Any] = []
    tvm_ffi.structural_walk(value, (ir.Call, found.append))
    return not found


def _plain(value: Any) -> bool:
    """Whether it is an integer that is the same wherever it is computed."""
    if str(value.ty.dtype) not in ("int32", "int64"):
        return False
    found: list[Any] = []
    tvm_ffi.structural_walk(value, [(TensorLoad, found.append), (ir.Call, found.append)])
    return not found


def _divided(value: Any) -> bool:
    """Whether it is a quotient that takes many instructions."""
    found: list[bool] = []
    quotients = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
    tvm_ffi.structural_walk(
        value, (quotients, lambda one: found.append(not isinstance(one.b, tirx.IntImm)))
    )
    return any(found)


def _terms(value: Any, factor: int) -> list[tuple[Any, int]]:
    """The terms of a sum, each with what it is multiplied by."""
    if isinstance(value, tirx.Add):
        return _terms(value.a, factor) + _terms(value.b, factor)
    if isinstance(value, tirx.Sub):
        return _terms(value.a, factor) + _terms(value.b, -factor)
    if isinstance(value, tirx.Mul) and isinstance(value.b, tirx.IntImm):
        return _terms(value.a, factor * int(value.b))
    return [(value, factor)]


def _is_zero(value: Any) -> bool:
    value = value.value if isinstance(value, tirx.Broadcast) else value
    return isinstance(value, tirx.IntImm | tirx.FloatImm) and value.value == 0


def _within(buffer: Any, element_bytes: int, before: int) -> bool:
    """Whether offsets of 32 bits reach all of a buffer, from some elements before it."""
    count = 1
    for extent in buffer.shape:
        if not isinstance(extent, tirx.IntImm):
            return False
        count *= int(extent)
    return (count + before) * element_bytes < MOST
