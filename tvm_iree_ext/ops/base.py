"""What every op offers: its name, operands, attributes, and its meaning as TensorIR."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tvm import tirx

import tvm_iree_ext.interrupts  # noqa: F401 - Ctrl-C stays what it is
from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.signature import Extent, Operand, Signature, extent_value


class Op(ABC):
    """An op with its attributes and operand types: says what is computed, never how.

    Objects are immutable.  Two ops of equal :meth:`describe` compute the same.
    """

    name: str
    """The dialect's name, such as ``iree_linalg_ext.attention``."""

    @property
    def entry(self) -> str:
        """The kernel's function name: the op's name without its dialect."""
        return self.name.split(".", 1)[1].replace(".", "_")

    @property
    @abstractmethod
    def signature(self) -> Signature:
        """Operands and results in call order."""

    @property
    @abstractmethod
    def attributes(self) -> dict[str, Any]:
        """The attributes as plain JSON values; with the signature, all that sets the meaning."""

    @abstractmethod
    def prim_func(self) -> tirx.PrimFunc:
        """The canonical TensorIR: right on any target, not scheduled."""

    @abstractmethod
    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Floating-point operations of the contractions; ``extents`` gives the symbols' values."""

    def bytes(self, extents: Mapping[str, int] | None = None) -> int:
        """Bytes read and written when each operand is touched once."""
        return sum(operand_bytes(operand, extents) for operand in self.signature.operands)

    def describe(self) -> dict[str, Any]:
        """Name, operands and attributes as plain JSON values: the op's identity."""
        return {
            "op": self.name,
            "operands": self.signature.to_json(),
            "attributes": self.attributes,
        }

    def __str__(self) -> str:
        arguments = ", ".join(map(str, self.signature.arguments))
        results = ", ".join(map(str, self.signature.results))
        return f"{self.name}({arguments}) -> ({results})"


def operand_bytes(operand: Operand, extents: Mapping[str, int] | None) -> int:
    """The bytes of an operand; KeyError for a symbol without a value."""
    count = math.prod(resolve(extent, extents) for extent in operand.shape)
    return count * item_bytes(operand.dtype)


def resolve(extent: Extent, extents: Mapping[str, int] | None) -> int:
    """The number that an extent stands for; KeyError for a symbol without a value."""
    return extent_value(extent, extents or {})
