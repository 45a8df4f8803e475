"""What an atomic operation makes of a memory's element, by the pseudocode of the instruction."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.decoding import Instruction
from tvm_iree_ext.emulator.amd.pseudocode.reading import PseudocodeError
from tvm_iree_ext.emulator.amd.pseudocode.translation import PseudocodeSetting, translate

Array = np.ndarray[Any, Any]
_ADDRESS = re.compile(r"MEM\[[aA][dD][dD][rR]\]")
_LEFT_OUT = re.compile(r"(addr = Calc|RETURN_DATA)")


@dataclass(frozen=True)
class AtomicOperation:
    """``change(old, operands)`` of memory of the type ``element``, with so many ``operands``.

    The second operand of an exchange is what memory is compared with.
    """

    change: Callable[[Array, Array], Array]
    element: Any
    operands: int


def atomic_operation(instruction: Instruction) -> AtomicOperation:
    """The operation of an atomic instruction.

    Raises:
        EmulationError: for one that is not emulated.
    """
    name = instruction.name
    wide = name.endswith(("_X2", "64"))
    element: Any = np.uint64 if wide else np.uint32
    if "CMPS" in name:
        shared = name.startswith("DS_")
        # CMPST has the comparand first; CMPSTORE and CMPSWAP what is stored.
        first_is_comparand = shared and "CMPST_" in name
        return AtomicOperation(_exchange(name, first_is_comparand), element, 2)
    if "SWAP" in name or "XCHG" in name:
        return AtomicOperation(lambda old, operand: operand, element, 1)
    return AtomicOperation(_changed(instruction.pseudocode, name, wide), element, 1)


def _exchange(name: str, first_is_comparand: bool) -> Callable[[Array, Array], Array]:
    if name.endswith(("F32", "F64")):
        raise EmulationError(f"{name} compares floats, which is not emulated")

    def change(old: Array, operands: Array) -> Array:
        value, comparand = operands[::-1] if first_is_comparand else operands
        return np.where(old == comparand, value, old)

    return change


@functools.lru_cache(maxsize=256)
def _changed(text: str, name: str, wide: bool) -> Callable[[Array, Array], Array]:
    lines = [line for line in text.split("\n") if not _LEFT_OUT.match(line)]
    plain = _ADDRESS.sub("MEM", "\n".join(lines))
    width = 64 if wide else 32
    try:
        function = translate(plain, PseudocodeSetting({"MEM": width, "DATA": width}))
    except PseudocodeError as error:
        raise EmulationError(f"{name} is not emulated: {error}") from error
    if function.outputs != ("MEM",):
        raise EmulationError(f"{name} changes {function.outputs}")

    def change(old: Array, operand: Array) -> Array:
        given = {"MEM": old, "DATA": operand}
        return function.run(**{key: given[key] for key in function.inputs})[0].astype(old.dtype)

    return change
