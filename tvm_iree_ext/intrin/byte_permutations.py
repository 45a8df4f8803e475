"""Words made of bytes of two others, by one instruction."""

from collections.abc import Sequence
from typing import Any

from tvm import tirx


def permuted(words: tuple[Any, Any], picks: Sequence[int], kind: str) -> Any:
    """A word of four bytes of two words: 0 to 3 are of the first, 4 to 7 of the second.

    Args:
        words: ``int32``.
        picks: the byte for each place, the lowest first.
        kind: of the target, ``rocm`` or ``cuda``.
    """
    first, second = words
    place = 8 if kind == "rocm" else 4
    selector = tirx.const(sum(pick << place * at for at, pick in enumerate(picks)), "int32")
    if kind == "rocm":  # counts the bytes of its second operand first
        return tirx.call_llvm_pure_intrin("int32", "llvm.amdgcn.perm", second, first, selector)
    return tirx.call_pure_extern("int32", "__byte_perm", first, second, selector)
