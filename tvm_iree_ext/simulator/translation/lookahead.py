"""Analysis of a kernel before its translation: uses of each memory, and where lanes may wait."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.translation.lane_expressions import dtype_of, operator_name

_COPIES = [f"ptx.cp_async_{cache}{form}" for cache in ("ca", "cg") for form in ("", "_src_size")]
_READERS = {"cuda.ldg": 0} | dict.fromkeys(_COPIES, 1)
"""Calls that only read what one of their arguments points to."""

_FUNCTIONS = ("call_extern", "cuda.func_call")
PREFIX = "tvm_iree_ext_atomic_"
"""How the names of our atomic functions of global memory begin."""


@dataclass(frozen=True)
class Uses:
    """Uses of memories, by their variables: of an allocation, or a parameter.

    Attributes:
        units: bytes of the smallest element that it is read or written as.
        aliased: what is read or written as several types.
        by_lane: what is private to a lane and has an index that differs from lane to lane.
        loaded, stored: what the kernel reads, and what it writes.
        warpgroups: whether the kernel has instructions that read shared memory asynchronously.
        barriers: whether it makes barriers in shared memory.
    """

    units: dict[Any, int]
    aliased: set[Any]
    by_lane: set[Any]
    loaded: set[Any]
    stored: set[Any]
    warpgroups: bool
    barriers: bool


def look_ahead(body: Any) -> Uses:
    """How the statements use memory."""
    root: dict[Any, Any] = {}
    types: dict[Any, set[np.dtype]] = {}
    stored: set[Any] = set()
    loaded: set[Any] = set()
    addressed: Counter = Counter()  # how often a memory's address is taken, and only to read
    only_read: Counter = Counter()
    names: set[str] = set()

    def rooted(base: Any) -> Any:
        return root.get(base, base)

    def declared(buffer: Any, data: Any) -> None:
        base = rooted(buffer if data is None else base_of(data))
        root[buffer] = base
        types.setdefault(base, set()).add(element_type(str(buffer.dtype)))

    def by_pointer(node: Any) -> None:
        name = operator_name(node)
        if name == "s_tir.cp_async_raw":
            stored.add(rooted(base_of(node.args[0])))
            loaded.add(rooted(base_of(node.args[2])))
        names.add(name)
        if name in _FUNCTIONS and str(node.args[0].value).startswith(PREFIX):
            base = rooted(base_of(node.args[1]))
            stored.add(base)
            loaded.add(base)
        if name in _READERS:
            only_read[rooted(base_of(node.args[_READERS[name]]))] += 1
        if name in ("address_of", "tvm_access_ptr"):
            base = rooted(base_of(node))
            addressed[base] += 1
            if name == "tvm_access_ptr":
                types.setdefault(base, set()).add(element_type(dtype_of(node.args[0])))

    walk = tvm_ffi.structural_walk
    walk(body, (tirx.AllocBuffer, lambda node: declared(node.buffer, None)))
    walk(body, (tirx.DeclBuffer, lambda node: declared(node.buffer, node.data)))
    walk(body, (tirx.BufferStore, lambda node: stored.add(rooted(node.buffer))))
    walk(body, (ir.TensorLoad, lambda node: loaded.add(rooted(node.source))))
    walk(body, (ir.Call, by_pointer))
    loaded |= set(addressed)
    stored |= {base for base, count in addressed.items() if count > only_read[base]}
    units = {base: min(kind.itemsize for kind in kinds) for base, kinds in types.items()}
    aliased = {base for base, kinds in types.items() if len(kinds) > 1}
    warpgroups = any(name.startswith(("ptx.wgmma", "ptx.tcgen05_mma")) for name in names)
    barriers = "ptx.mbarrier_init" in names
    return Uses(units, aliased, _indexed_by_lane(body), loaded, stored, warpgroups, barriers)


def _indexed_by_lane(body: Any) -> set[Any]:
    """The local buffers with an index of which a thread's is part."""
    threads: set[Any] = set()
    by_lane: set[Any] = set()

    def thread(node: Any) -> None:
        if node.attr_key == "thread_extent" and str(node.node.thread_tag).startswith("threadIdx"):
            threads.add(node.node.var)

    def indexed(buffer: Any, indices: Any) -> None:
        if buffer.scope() == "local" and buffer not in by_lane:
            used = (var for index in indices for var in tirx.analysis.undefined_vars(index))
            if any(var in threads for var in used):
                by_lane.add(buffer)

    walk = tvm_ffi.structural_walk
    walk(body, (tirx.AttrStmt, thread))
    walk(body, (tirx.BufferStore, lambda node: indexed(node.buffer, node.indices)))
    walk(body, (ir.TensorLoad, lambda node: indexed(node.source, node.indices)))
    return by_lane


def base_of(data: Any) -> Any:
    """The variable that a pointer expression is about."""
    while isinstance(data, ir.Call | ir.TensorLoad | tirx.Cast):
        if isinstance(data, ir.TensorLoad):
            return data.source
        if isinstance(data, tirx.Cast):
            data = data.value
        else:
            data = data.args[operator_name(data) == "tvm_access_ptr"]
    return data


_ARRIVALS = ("mbarrier", "tcgen05_commit")
WAIT = "cuda.mbarrier_wait"
"""The wait for another lane's action."""

_EXITS = ("break_loop", "continue_loop", "thread_return")


def wait_for_each_other(one: Any, other: Any) -> bool:
    """Whether lanes that go two ways meet at barriers in shared memory, and wait there."""
    names = (_called(one), _called(other))
    return all(any(mark in name for mark in _ARRIVALS for name in each) for each in names) and any(
        any(name.startswith(WAIT) for name in each) for each in names
    )


def _called(body: Any) -> set[str]:
    names: set[str] = set()
    tvm_ffi.structural_walk(body, (ir.Call, lambda node: names.add(operator_name(node))))
    return names


def may_leave(body: Any) -> bool:
    """Whether a lane may leave a loop before its end."""
    found: list[Any] = []

    def called(node: Any) -> None:
        if operator_name(node) in _EXITS:
            found.append(node)

    for kind in (tirx.stmt.Break, tirx.stmt.Continue, tirx.stmt.Return):
        tvm_ffi.structural_walk(body, (kind, found.append))
    tvm_ffi.structural_walk(body, (ir.Call, called))
    return bool(found)
