"""Loads, stores and atomic updates.

Source: PTX ISA 9.0, *Data Movement and Conversion Instructions: ld, ld.global.nc, ldu, st,
prefetch, isspacep*; *Parallel Synchronization and Communication Instructions: atom, red*.  What
caches are told changes nothing here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.ptx.machine.address_windows import (
    GLOBAL_WINDOW,
    LOCAL_WINDOW,
    PARAMETER_WINDOW,
    SHARED_WINDOW,
)
from tvm_iree_ext.emulator.ptx.machine.execution import Execution
from tvm_iree_ext.emulator.ptx.machine.memory_spaces import Change
from tvm_iree_ext.emulator.ptx.reading.scalar_types import Value, bits_of, numpy_of
from tvm_iree_ext.emulator.ptx.reading.syntax import DroppedResult, PtxInstruction
from tvm_iree_ext.emulator.ptx.values.floats import flushed
from tvm_iree_ext.emulator.ptx.values.operations import (
    PtxOperation,
    instruction,
    items,
    on_lanes,
    place,
)
from tvm_iree_ext.emulator.ptx.values.small_floats import from_bfloat16, to_bfloat16

_SPACES = {
    "global": "global", "shared": "shared", "shared::cta": "shared", "shared::cluster": "shared",
    "local": "local", "param": "param", "param::entry": "param", "const": "global",
}  # fmt: skip


def space_of(one: PtxInstruction) -> str:
    """The state space of an access; empty for a generic address."""
    return next((_SPACES[name] for name in one.modifiers if name in _SPACES), "")


def at(lanes: Execution, base: Value, offset: int) -> np.ndarray:
    """Each lane's address."""
    base = base.astype(np.uint64) if base.dtype != np.uint64 else base
    return lanes.full(base + np.uint64(offset & (1 << 64) - 1))


def _element(kind: str) -> tuple[np.dtype, int]:
    """The words of memory of an element, and how many."""
    bits = bits_of(kind)
    return (np.dtype(np.uint64), 2) if bits == 128 else (numpy_of(f"b{bits}"), 1)


@instruction("ld", "ldu")
def _ld(one: PtxInstruction) -> PtxOperation:
    """*ld*, *ldu*: one or more elements."""
    target, source, *_ = one.operands
    registers = items(target)
    base, address_type, offset = place(source)
    space, (element, words) = space_of(one), _element(one.type)
    if words > 1:
        raise ValueError("128 bits")
    kind, count = numpy_of(one.type), len(registers)

    def function(lanes: Execution, base: Value) -> Any:
        found = lanes.spaces.load(space, at(lanes, base, offset), element, count, lanes)
        return found[0].view(kind) if count == 1 else tuple(found.view(kind))

    targets = [(register, one.type) for register in registers]
    return on_lanes(function, [(base, address_type)], targets)


@instruction("st")
def _st(one: PtxInstruction) -> PtxOperation:
    """*st*: one or more elements."""
    target, source, *_ = one.operands
    registers = items(source)
    base, address_type, offset = place(target)
    space, (element, words) = space_of(one), _element(one.type)
    if words > 1:
        raise ValueError("128 bits")

    def function(lanes: Execution, base: Value, *values: Value) -> None:
        whole = np.empty((len(values), *lanes.shape), element)
        for number, value in enumerate(values):
            whole[number] = np.asarray(value).view(element)
        spaces = lanes.spaces
        spaces.store(space, at(lanes, base, offset), whole, lanes)

    sources = [(base, address_type), *((register, one.type) for register in registers)]
    return on_lanes(function, sources)


@instruction("prefetch", "prefetchu", "applypriority", "discard")
def _prefetch(one: PtxInstruction) -> PtxOperation:
    """*prefetch*: nothing is to be seen of it."""
    return PtxOperation(lambda: None, (), ())


@instruction("isspacep")
def _isspacep(one: PtxInstruction) -> PtxOperation:
    """*isspacep*: whether a generic address is of a space."""
    windows = {
        "shared": (SHARED_WINDOW, LOCAL_WINDOW), "local": (LOCAL_WINDOW, PARAMETER_WINDOW),
        "param": (PARAMETER_WINDOW, GLOBAL_WINDOW), "global": (GLOBAL_WINDOW, 1 << 64),
    }  # fmt: skip
    target, source = one.operands
    first, end = windows[_SPACES[one.modifiers[0]]]
    return PtxOperation(
        lambda a: (a >= np.uint64(first)) & (a <= np.uint64(end - 1)),
        [(source, "b64")],
        [(target, "pred")],
    )


def _inc(old: np.ndarray, most: np.ndarray) -> np.ndarray:
    return np.where(old >= most, 0, old + 1).astype(old.dtype)


def _dec(old: np.ndarray, most: np.ndarray) -> np.ndarray:
    return np.where((old == 0) | (old > most), most, old - 1).astype(old.dtype)


_CHANGES: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "exch": lambda old, new: new, "inc": _inc,
    "dec": _dec,
}  # fmt: skip


def _change(one: PtxInstruction, kind: str, flushes: bool) -> Change:
    """How an element's bits change."""
    name = next(m for m in one.modifiers if m in _CHANGES or m == "cas")
    if name == "cas":
        return lambda old, pair: np.where(old == pair[0], pair[1], old)
    function = _CHANGES[name]
    if kind in ("f16x2", "bf16x2"):
        return _of_halves(function, kind)
    if kind == "bf16":
        return lambda old, new: to_bfloat16(function(from_bfloat16(old), from_bfloat16(new)))
    value = numpy_of(kind)

    def change(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        a, b = old.view(value), new.view(value)
        if flushes:
            return np.asarray(flushed(function(flushed(a), flushed(b)))).view(old.dtype)
        return np.asarray(function(a, b)).view(old.dtype)

    return change


def _of_halves(function: Callable[..., np.ndarray], kind: str) -> Change:
    def half(value: np.ndarray) -> np.ndarray:
        parts = np.ascontiguousarray(value).view(np.uint16)
        return from_bfloat16(parts) if kind == "bf16x2" else parts.view(np.float16)

    def change(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        made = function(half(old), half(new))
        bits = to_bfloat16(made) if kind == "bf16x2" else made.view(np.uint16)
        return np.ascontiguousarray(bits).view(old.dtype)

    return change


@instruction("atom", "red")
def _atom(one: PtxInstruction) -> PtxOperation:
    """*atom*, *red*: one lane after another.

    *atom.add.f32* and *red.add.f32* of global memory take subnormal numbers for zeros.
    """
    gives = one.opcode == "atom"
    target, source, *operands = one.operands if gives else (DroppedResult(), *one.operands)
    kind, space = one.type, space_of(one)
    if one.has("async") or isinstance(operands[0], tuple):
        raise ValueError("vectors, and asynchronous ones")
    is_cas = one.has("cas")
    operands = operands[: 2 if is_cas else 1]
    base, address_type, offset = place(source)
    bits = numpy_of(f"b{bits_of(kind)}")
    change = _change(one, kind, kind == "f32" and one.has("add") and space == "global")

    def function(lanes: Execution, base: Value, *values: Value) -> Any:
        words = [lanes.full(np.asarray(value).view(bits)) for value in values]
        whole = np.stack(words) if is_cas else words[0]
        spaces = lanes.spaces
        old = spaces.update(space, at(lanes, base, offset), change, whole, lanes)
        return old.view(numpy_of(kind)) if gives else None

    sources = [(base, address_type), *((operand, kind) for operand in operands)]
    return on_lanes(function, sources, [(target, kind)] if gives else ())
