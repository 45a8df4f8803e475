"""Arrays of a launch plan that is being made: their names, their extents, what is known of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.base.dtypes import item_bytes

Count = int | str
"""A number, or its text in the plan's arithmetic."""


@dataclass(frozen=True)
class PlannedArray:
    """An array of a plan.

    Attributes:
        name: of its memory in the plan.
        dtype: of its elements.
        shape: numbers, or texts over names of the plan.
        number: what it holds, where it has one element that is known already.
    """

    name: str
    dtype: str
    shape: tuple[Count, ...]
    number: int | None = None

    @property
    def bytes(self) -> Count:
        """Bytes of all elements."""
        return product([*self.shape, item_bytes(self.dtype)])


def says_extents(kind: Any) -> bool:
    """Whether a tensor's type says its extents, and not their count alone."""
    return getattr(kind.shape, "values", None) is not None


def product(factors: Iterable[Count]) -> Count:
    """The product of numbers and texts."""
    known, texts = 1, []
    for factor in factors:
        if isinstance(factor, int):
            known *= factor
        else:
            texts.append(factor if factor.isidentifier() else f"({factor})")
    if not texts or not known:
        return known
    return " * ".join(texts if known == 1 else [*texts, str(known)])
