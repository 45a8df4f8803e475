"""The operands of an op or kernel, in call order: names, shapes, dtypes, roles.

An extent is an ``int``, or a name for one that is known when the kernel is called; one name
stands for one extent in all operands.  No TVM here: a deployed kernel checks its call with this.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tvm_iree_ext.errors import CallError

Extent = int | str
Shape = tuple[Extent, ...]
Role = Literal["input", "scalar", "result"]


def shape_text(shape: Iterable[Extent]) -> str:
    """``[1, heads, 64]``."""
    return "[" + ", ".join(map(str, shape)) + "]"


@dataclass(frozen=True)
class Operand:
    """One parameter of a kernel.

    ``scalar`` is a number passed by value (its shape is ``()``); ``result`` is written, never read.
    """

    name: str
    shape: Shape
    dtype: str
    role: Role = "input"

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{shape_text(self.shape)}"


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel: inputs and scalars as a caller passes them, then the results."""

    operands: tuple[Operand, ...]

    @property
    def arguments(self) -> tuple[Operand, ...]:
        """What a caller passes, in order."""
        return tuple(o for o in self.operands if o.role != "result")

    @property
    def results(self) -> tuple[Operand, ...]:
        """What the kernel writes, in order."""
        return tuple(o for o in self.operands if o.role == "result")

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the extents that are known at call time, by first use."""
        extents = (e for o in self.operands for e in o.shape if isinstance(e, str))
        return tuple(dict.fromkeys(extents))

    def bind(self, op: str, shapes: Sequence[Sequence[int] | None]) -> dict[str, int]:
        """The symbols' values, from the shapes of the arguments (None for a scalar).

        Raises:
            CallError: when a rank or an extent does not fit; ``op`` and the operand are named.
        """
        bound: dict[str, int] = {}
        first: dict[str, str] = {}
        for operand, shape in zip(self.arguments, shapes, strict=True):
            if shape is None:
                continue
            if len(shape) != len(operand.shape):
                raise CallError(
                    f"{op}: {operand.name} has rank {len(shape)}; expected {len(operand.shape)}"
                    f" for {shape_text(operand.shape)}"
                )
            for axis, (came, want) in enumerate(zip(shape, operand.shape, strict=True)):
                where = f"{operand.name} axis {axis}"
                if isinstance(want, str):
                    first.setdefault(want, where)
                    expected = bound.setdefault(want, came)
                    because = f" ({want}, from {first[want]})"
                else:
                    expected, because = want, ""
                if came != expected:
                    raise CallError(
                        f"{op}: {where} has extent {came}; expected {expected}{because}"
                    )
        return bound

    def result_shapes(self, bound: Mapping[str, int]) -> list[tuple[int, ...]]:
        """The shapes of the results for the symbols of :meth:`bind`."""
        return [
            tuple(bound[e] if isinstance(e, str) else e for e in result.shape)
            for result in self.results
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """A list of plain dictionaries, for a manifest."""
        return [
            {"name": o.name, "shape": list(o.shape), "dtype": o.dtype, "role": o.role}
            for o in self.operands
        ]

    @staticmethod
    def from_json(data: Iterable[Mapping[str, Any]]) -> "Signature":
        """The inverse of :meth:`to_json`."""
        return Signature(
            tuple(Operand(o["name"], tuple(o["shape"]), o["dtype"], o["role"]) for o in data)
        )


@dataclass(frozen=True)
class TensorType:
    """A shape with a dtype, for ops whose operands differ in dtype."""

    shape: Shape
    dtype: str
