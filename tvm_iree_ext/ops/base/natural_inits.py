"""Initial values that a caller may leave out: those with which nothing is combined yet.

They are numbers of the element type; infinities are texts, as JSON has none.
"""

from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Default
from tvm_iree_ext.ops.base.regions import NAMED, Region

_WITH_INFINITY = (*dtypes.FLOATS, "float8_e5m2")
_NAMES = {text: name for name, text in NAMED.items()}


def lowest(dtype: str) -> Default:
    """What no value of a type lies below."""
    if dtype == "bool":
        return False
    return "-inf" if dtype in _WITH_INFINITY else int(dtypes.limits(dtype)[0])


def highest(dtype: str) -> Default:
    """What no value of a type lies above."""
    if dtype == "bool":
        return True
    return "inf" if dtype in _WITH_INFINITY else int(dtypes.limits(dtype)[1])


def identity(region: Region, dtype: str) -> Default | None:
    """What a region gives back its other argument for; None where none is known."""
    zero: Any = False if dtype == "bool" else 0
    match _name(region):
        case "add" | "or" | "xor":
            return zero
        case "mul":
            return 1
        case "and":
            if dtype == "bool":
                return True
            return highest(dtype) if dtype.startswith("u") else -1
        case "min":
            return highest(dtype)
        case "max":
            return lowest(dtype)
    return None


def worst(region: Region, dtype: str) -> Default | None:
    """What every other value goes before, by a plain comparison; None for any other region."""
    match _name(region):
        case ">" | ">=":
            return lowest(dtype)
        case "<" | "<=":
            return highest(dtype)
    return None


def _name(region: Region) -> str | None:
    """The region's name in :data:`.NAMED`; a text's own is found without TVM."""
    return _NAMES.get(region.source or "") or region.known_as
