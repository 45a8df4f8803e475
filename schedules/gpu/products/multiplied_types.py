"""Types in which a product is multiplied on a chip: its own, or wider ones that hold them."""

from collections.abc import Iterable

from tvm.target import Target

from tvm_iree_ext.base.dtypes import FLOATS8, NARROW_FLOATS
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.schedules.gpu.products.matmul_heuristic import by_lanes
from tvm_iree_ext.schedules.gpu.products.matmul_kinds import multiplying_kinds

Types = tuple[str, str, str]
"""Types of lhs and rhs as they are multiplied, and of sums."""

_HOLDING = {
    **dict.fromkeys((*FLOATS8, *NARROW_FLOATS), ("float16", "bfloat16", "float32")),
    "float16": ("float16", "float32"),
    "bfloat16": ("bfloat16", "float32"),
    "float32": ("float32",),
    "int8": ("float16", "bfloat16", "float32"),
}
"""The types that hold every number of a type, the narrowest first."""


def foreign_type(kinds: Iterable[str], target: Target) -> str | None:
    """Why one of some types is not multiplied on any chip of a kind of target."""
    amd = [one for one in kinds if one.endswith("fnuz")]
    if target.kind.name != "cuda" or not amd:
        return None
    return f"{amd[0]} is AMD's; CUDA's code has no such type"


def multiplied_types(lhs: str, rhs: str, sums: str, target: Target) -> Types:
    """The narrowest types in which the products are exact and that the chip multiplies.

    Args:
        lhs, rhs: the types in memory.
        sums: the type of sums.
        target: a GPU.

    Raises:
        ScheduleError: when it has none, saying what it multiplies.
    """
    if reason := foreign_type((lhs, rhs), target):
        raise ScheduleError(reason)
    choices: list[Types] = []
    if sums == "float64":
        choices = [("float64", "float64", sums)]
    else:
        common = [dtype for dtype in _HOLDING[lhs] if dtype in _HOLDING[rhs]]
        choices = [(lhs, rhs, sums), *((dtype, dtype, sums) for dtype in common)]
    offered = multiplying_kinds(target)
    for types in dict.fromkeys(choices):
        if types in offered or by_lanes(types, target):
            return types
    tried = " or ".join(dict.fromkeys(f"{a} * {b}" for a, b, _ in choices))
    known = ", ".join(sorted({f"{a} * {b}" for a, b, _ in offered}))
    raise ScheduleError(
        f"no matrix instruction for {tried} in {sums}; it multiplies {known or 'nothing'}"
    )
