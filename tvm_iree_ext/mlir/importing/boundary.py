"""What callers of a function give and get, where the IR of its body says less.

MLIR's integers have no sign once a front end has lowered them, the type of a buffer view is known
only to who reads it, and JAX leaves out arguments that nothing reads.
"""

from dataclasses import dataclass

from tvm_iree_ext.mlir.base.elements import Element, element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.reading import form


@dataclass(frozen=True)
class Given:
    """An argument as callers give it; None stands for the type that the IR has.

    ``is_in_ir`` is False for one that the function in the IR does not take.
    """

    type: form.ParsedTensorType | None = None
    is_in_ir: bool = True


@dataclass(frozen=True)
class Boundary:
    """The arguments of a function, and the element types of its results, in order."""

    arguments: tuple[Given, ...]
    results: tuple[str | None, ...]


def seen(kind: Element, name: str | None, what: str) -> Element:
    """The element type that callers see of one that the IR has: of the same bits.

    Raises:
        Unsupported: for one of other bits; ``what`` is of that type.
    """
    if name is None or name == kind.name:
        return kind
    outer = element(name)
    if not (outer.is_integer and kind.is_integer and outer.bits == kind.bits):
        raise Unsupported(f"{what} is {kind.name} in IR; expected {name}")
    return outer
