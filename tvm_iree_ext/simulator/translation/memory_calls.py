"""Calls about memory: atomic operations, and copies that go on by themselves."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from tvm import tirx

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.translation.lane_expressions import (
    Binding,
    Expressions,
    dtype_of,
    lanes_of,
)
from tvm_iree_ext.simulator.translation.lookahead import PREFIX
from tvm_iree_ext.simulator.translation.python_source import Code
from tvm_iree_ext.simulator.translation.value_calls import (
    EXTERNS,
    NOTHING,
    ZERO,
    Pointer,
    extern,
    function_call,
    handles,
    pointer,
    retyped,
    tokens_of,
)

_LOAD = "tvm_iree_ext_load_"
_COMBINE = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
            "or": np.bitwise_or, "xor": np.bitwise_xor, "sub": np.subtract,
            "exch": lambda before, new: new}  # fmt: skip


def atomic(tr: Expressions, name: str, address: Any, value: Any) -> Code:
    """A read and write that nobody interrupts."""
    if name not in _COMBINE:
        raise SimulationError(f"the simulator does not know the atomic operation {name!r}")
    return atomic_at(tr, name, pointer(tr, address), value)


def atomic_at(tr: Expressions, name: str, at: Pointer, value: Any) -> Code:
    """The same, of an element whose place is known."""
    how = tr.emitter.object(("atomic", name), _COMBINE[name], name)
    number = tr(value)
    text = (
        f"{at.view}.atomic(rt, {at.at.text}, {tr.scalar(number, dtype_of(value))}, {tr.mask},"
        f" {tr.statement}, {how})"
    )
    return tr.emitter.here(text, False)


@handles("atomic")
def _atomic_function(tr: Expressions, node: Any) -> Code:
    name, address, value = node.args
    return atomic(tr, str(name.value).removeprefix("atomic").lower(), address, value)


@handles("cuda.atomic_add")
def _atomic_add(tr: Expressions, node: Any) -> Code:
    return atomic(tr, "add", node.args[0], node.args[1])


def _update(combine: str, tr: Expressions, node: Any) -> Code:
    """Translate one of our atomic functions over base, position and value."""
    base, position, value = node.args[:3]
    return atomic_at(tr, combine, _element(tr, base, position), value)


EXTERNS["tvm_iree_ext_shared_add_"] = lambda tr, node: _update("add", tr, node)


def _element(tr: Expressions, base: Any, position: Any) -> Pointer:
    there = pointer(tr, base)
    return retyped(tr, there, there.dtype, tr(position))


class _Given(NamedTuple):
    args: list[Any]


for _combine in _COMBINE:
    EXTERNS[f"{PREFIX}{_combine}_"] = partial(_update, _combine)


@extern(f"{PREFIX}ticket_")
def _ticket(tr: Expressions, node: Any) -> Code:
    """How many asked before."""
    return _update("add", tr, _Given([*node.args, tirx.const(1, "int32")]))


@extern(f"{PREFIX}store_")
def _publish(tr: Expressions, node: Any) -> Code:
    base, position, word = node.args
    at, number = _element(tr, base, position), tr(word)
    value = tr.scalar(number, dtype_of(word))
    tr.emitter.line(f"{at.view}.publish(rt, {at.at.text}, {value}, {tr.mask}, {tr.statement})")
    return NOTHING


@extern(f"{PREFIX}load_")
def _seen(tr: Expressions, node: Any) -> Code:
    at = _element(tr, *node.args)
    return tr.emitter.here(f"{at.view}.seen(rt, {at.at.text}, {tr.mask}, {tr.statement})", False)


@extern(f"{PREFIX}await_")
def _awaited(tr: Expressions, node: Any) -> Code:
    base, position, word = node.args
    at, number = _element(tr, base, position), tr(word)
    value = tr.scalar(number, dtype_of(word))
    return tr.emitter.here(
        f"{at.view}.awaited(rt, {at.at.text}, {value}, {tr.mask}, {tr.statement})", False
    )


@handles("cuda.func_call")
def _cuda_function(tr: Expressions, node: Any) -> Code:
    name, *args, _source = node.args
    return function_call(tr, node, str(name.value), args)


@handles("cuda.ldg")
def _ldg(tr: Expressions, node: Any) -> Code:
    at = pointer(tr, node.args[0])
    return tr.load_at(Binding(at.view, "view", at.dtype), at.at, lanes_of(dtype_of(node)))


@extern(_LOAD)
def _buffer_load(tr: Expressions, node: Any) -> Code:
    """A load through a buffer resource: a base, and bytes from there in three parts."""
    base, *offsets = node.args
    at = pointer(tr, base)
    parts = [tr(offset) for offset in offsets]
    total = tr.compose(" + ".join(f"({part.text})" for part in parts), *parts)
    size = element_type(at.dtype).itemsize
    index = tr.compose(f"({total.text}) // {size}", total)
    words = dtype_of(node)
    moved = element_type(words).itemsize * lanes_of(words)
    value = tr.load_at(Binding(at.view, "view", at.dtype), index, moved // size)
    text = tr.scalar(value, at.dtype)
    return tr.compose(f"bits({text}, {tr.dtype(element_type(words))}, {lanes_of(words)})", value)


@extern("tvm_iree_ext_guarded_load_")
def _guarded_buffer_load(tr: Expressions, node: Any) -> Code:
    """The same under a condition, without which it gives 0."""
    *operands, inside = node.args
    words = dtype_of(node)
    load = tirx.call_extern(words, _LOAD, *operands)
    return tr(tirx.if_then_else(inside, load, tirx.const(0, words)))


# Asynchronous copies.


def start_copy(tr: Expressions, target: Any, source: Any, nbytes: int, kept: Any | None) -> Code:
    """Start a copy of ``nbytes`` a lane from global to shared memory."""
    to, origin = pointer(tr, target), pointer(tr, source)
    size = element_type(to.dtype).itemsize
    if element_type(origin.dtype) != element_type(to.dtype):  # bytes are copied, not values
        origin = retyped(tr, origin, to.dtype, ZERO)
    elements = str(nbytes // size)
    if kept is not None:
        bytes_kept = tr(kept)
        elements = tr.compose(f"{bytes_kept.text} // {size}", bytes_kept).text
    return _start(tr, to, origin, nbytes, elements)


def _start(tr: Expressions, to: Pointer, origin: Pointer, nbytes: int, elements: str) -> Code:
    size = element_type(to.dtype).itemsize
    tr.emitter.line(
        f"rt.copies.start({to.view}, {to.at.text}, {origin.view}, {origin.at.text},"
        f" {nbytes // size}, {elements}, {tr.mask}, {tr.statement})"
    )
    return NOTHING


@handles(
    "ptx.cp_async_ca", "ptx.cp_async_cg", "ptx.cp_async_ca_src_size", "ptx.cp_async_cg_src_size"
)
def _cp_async(tr: Expressions, node: Any) -> Code:
    operands, _ = tokens_of(node)
    target, source, nbytes, *kept = operands
    return start_copy(tr, target, source, int(nbytes.value), kept[0] if kept else None)


@handles("s_tir.cp_async_raw")
def _cp_async_raw(tr: Expressions, node: Any) -> Code:
    """TVM's own: pointers with offsets in elements of the call's type, bytes, maybe a condition."""
    target, target_offset, source, source_offset, nbytes, *condition = node.args
    to, origin = (
        retyped(tr, pointer(tr, base), dtype_of(node), tr(offset))
        for base, offset in ((target, target_offset), (source, source_offset))
    )
    count = int(nbytes.value) // element_type(to.dtype).itemsize
    elements = str(count)
    if condition:
        holds = tr(condition[0])
        elements = tr.compose(f"{count} * ({holds.text} != 0)", holds).text
    return _start(tr, to, origin, int(nbytes.value), elements)


@handles("ptx.cp_async_commit_group")
def _commit(tr: Expressions, node: Any) -> Code:
    tr.emitter.line(f"rt.copies.commit({tr.mask})")
    return NOTHING


@handles("ptx.cp_async_wait_group")
def _wait(tr: Expressions, node: Any) -> Code:
    newest = tr(tokens_of(node)[0][0])
    tr.emitter.line(f"rt.copies.wait({newest.text}, {tr.mask}, {tr.statement})")
    return NOTHING


@handles("ptx.cp_async_wait_all")
def _wait_all(tr: Expressions, node: Any) -> Code:
    tr.emitter.line(f"rt.copies.wait_all({tr.mask}, {tr.statement})")
    return NOTHING
