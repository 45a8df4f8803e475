"""Ballots of a subgroup: one word, the same in all lanes, with a bit for each that says yes."""

from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I


def ballot(kind: str, subgroup_size: int, said: Any) -> Any:
    """A bit for each lane, bound here: all lanes of the subgroup must come by.

    Args:
        kind: of the target, ``cuda`` or ``rocm``.
        subgroup_size: 32 or 64, the bits of the word.
        said: a bool.
    """
    if kind == "cuda":
        everyone = tirx.const(0xFFFFFFFF, "uint32")
        return I.Bind(T.cuda.ballot_sync(everyone, tirx.Cast("int32", said)))
    name = f"llvm.amdgcn.ballot.i{subgroup_size}"
    word = tirx.call_llvm_intrin(f"int{subgroup_size}", name, said)
    return I.Bind(tirx.reinterpret(f"uint{subgroup_size}", word))


def count(kind: str, word: Any) -> Any:
    """How many lanes said yes."""
    if kind == "rocm":  # for which TVM lowers no popcount
        return tirx.Cast("int32", tirx.call_llvm_pure_intrin(word.ty, "llvm.ctpop", word))
    return tirx.Cast("int32", tirx.popcount(word))


def count_before(kind: str, word: Any, lane: Any) -> Any:
    """How many lanes before this one said yes."""
    dtype = str(word.ty.dtype)
    last = tirx.const(word.ty.dtype.bits - 1, "int32")
    # In two steps: a shift by all bits is undefined.
    kept = word << tirx.Cast(dtype, last - tirx.Cast("int32", lane))
    return count(kind, kept << tirx.const(1, dtype))


def subgroup_wait(kind: str) -> None:
    """Order a subgroup's accesses to shared memory: those before, then those after."""
    if kind == "cuda":
        I.evaluate(T.tvm_storage_sync("warp"))
    else:  # whose lanes go on together: an order for the compiler alone
        I.evaluate(tirx.call_llvm_intrin("void", "llvm.amdgcn.wave.barrier"))
