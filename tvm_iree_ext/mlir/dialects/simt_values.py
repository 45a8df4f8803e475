"""What lanes hold of vectors: ``to_simt``, ``to_simd``, and functions that take or give it.

Between these, values are computed whole: what is elementwise on the parts is so on the vector.  At
the edge of a function a caller gives and gets an array of what every lane of every subgroup holds,
``[subgroups, lanes, *local]`` with the local shape of the IR, as ``ops.vector_ext.to_simt`` has it.

By which layout, is said by the ``to_layout`` from which the value comes, or to which it goes, with
elementwise operations between.  How many subgroups and lanes there are is the function's
``translation_info``, or else as many as hold different parts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    SCALARS,
    Empty,
    HeldByLanes,
    Splat,
    Tensor,
    Value,
)
from tvm_iree_ext.mlir.dialects.registry_calls import call_op, element_type_of
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import tensor_kind
from tvm_iree_ext.mlir.scalars.scalar_regions import SCALAR_OPS
from tvm_iree_ext.ops import vector_ext
from tvm_iree_ext.ops.base.layouts import as_layout

_TO_LAYOUT, _TO_SIMD, _TO_SIMT = (
    f"iree_vector_ext.{name}" for name in ("to_layout", "to_simd", "to_simt")
)
_WORKGROUP = re.compile(r"\bworkgroup_size = \[([\d, ]+)\]")
_SUBGROUP = re.compile(r"\bsubgroup_size = (\d+)")


@dataclass(frozen=True)
class LayoutOnLanes:
    """A layout, and the subgroups and lanes of each by which a function has it."""

    layout: Any
    hardware: dict[str, int]


class _Groups:
    """Values that belong together."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def of(self, value: form.ParsedValue) -> int:
        """The group of a value."""
        found = id(value)
        while (parent := self._parents.get(found, found)) != found:
            found = parent
        return found

    def join(self, values: Sequence[form.ParsedValue]) -> None:
        """Have values be of one group."""
        for value in values[1:]:
            self._parents[self.of(value)] = self.of(values[0])


class SimtValues:
    """The values of a function that lanes hold, and the layouts of these and of whole vectors.

    Elementwise operations take and give values of one kind and one layout, and casts values of one
    layout.
    """

    def __init__(self, function: form.ParsedOperation) -> None:
        self._kinds, self._alike = _Groups(), _Groups()
        # By group: layouts that are given to its values, and those to which its values go.
        self._given: dict[int, list[Any]] = {}
        self._wanted: dict[int, list[Any]] = {}
        self._hardware = _hardware(function.attributes.get("translation_info"))
        operations = [op for op in function.walk() if op is not function]
        constants = {id(op.results[0]) for op in operations if op.name == "arith.constant"}
        held = []
        for op in operations:
            values = (*op.operands, *op.results)
            vectors = [one for one in values if _is_vector(one) and id(one) not in constants]
            if op.name in (_TO_SIMD, _TO_SIMT):
                held.append((op.operands if op.name == _TO_SIMD else op.results)[0])
                self._alike.join(vectors)
            elif op.name in SCALAR_OPS and vectors:
                self._kinds.join(vectors)
                self._alike.join(vectors)
        self._held = {self._kinds.of(one) for one in held}
        if not held:
            return
        for op in operations:
            if op.name == _TO_LAYOUT and (layout := _layout(op)) is not None:
                self._given.setdefault(self._alike.of(op.results[0]), []).append(layout)
                self._wanted.setdefault(self._alike.of(op.operands[0]), []).append(layout)

    def is_held(self, value: form.ParsedValue) -> bool:
        """Whether lanes hold a value."""
        return self._kinds.of(value) in self._held

    def distribution(self, value: form.ParsedValue) -> LayoutOnLanes | None:
        """How a value, or what lanes hold of it, is distributed; None where nothing says it.

        Raises:
            Unsupported: where several layouts are said.
        """
        group = self._alike.of(value)
        said = self._given.get(group) or self._wanted.get(group) or []
        found = list(dict.fromkeys(said))
        if len(found) > 1:
            raise Unsupported(
                f"{value.name} is what lanes hold by two layouts, {found[0]} and {found[1]}"
            )
        if not found:
            return None
        layout = found[0]
        usual = {"num_subgroups": layout.subgroup_period, "subgroup_size": layout.lane_period}
        return LayoutOnLanes(layout, self._hardware or usual)


def _is_vector(value: form.ParsedValue) -> bool:
    return isinstance(value.type, form.ParsedTensorType) and value.type.vector


def _layout(op: form.ParsedOperation) -> Any:
    """The layout of a to_layout; None for one that cannot be read, which is reported there."""
    try:
        return as_layout(op.name, getattr(op.attributes["layout"], "text", None))
    except OpError:
        return None


def _hardware(attribute: Any) -> dict[str, int] | None:
    text = str(getattr(attribute, "text", ""))
    lanes, size = _WORKGROUP.search(text), _SUBGROUP.search(text)
    if lanes is None or size is None or not int(size[1]):
        return None
    count = 1
    for one in lanes[1].split(","):
        count *= int(one)
    return {"num_subgroups": max(1, count // int(size[1])), "subgroup_size": int(size[1])}


def argument_shape(scope: Scope, value: form.ParsedValue) -> tuple[int, ...] | None:
    """The shape of what a caller gives for an argument that lanes hold; None for another one."""
    if not scope.function.simt.is_held(value):
        return None
    return tuple(_to_simt_op(scope, value).parts_shape)


def gathered(scope: Scope, value: form.ParsedValue, parts: Tensor) -> HeldByLanes:
    """An argument that lanes hold, of what a caller gives."""
    made = _to_simt_op(scope, value)
    hardware = {"num_subgroups": made.num_subgroups, "subgroup_size": made.subgroup_size}
    back = vector_ext.to_simd(element_type_of(scope, parts), made.layout, **hardware)
    like = Empty(made.layout.undistributed_shape, parts.element)
    (whole,) = call_op(scope, back, {"input": parts}, [like])
    assert isinstance(whole, Tensor)
    return HeldByLanes(whole, value)


def distributed(scope: Scope, lanes: HeldByLanes) -> Tensor:
    """What lanes hold, as the array that a caller gets."""
    made = _to_simt_op(scope, lanes.value, element_type_of(scope, lanes.whole))
    like = Empty(made.parts_shape, lanes.whole.element)
    (parts,) = call_op(scope, made, {"input": lanes.whole}, [like])
    assert isinstance(parts, Tensor)
    return parts


def _to_simt_op(scope: Scope, value: form.ParsedValue, whole: TensorType | None = None) -> Any:
    """The to_simt of what lanes hold, by the layout that the function says.

    Without the type of the whole it is of any type, and says what shape lanes hold.
    """
    found = scope.function.simt.distribution(value)
    if found is None:
        raise Unsupported(
            f"{value.name} is what lanes hold of a vector, and no iree_vector_ext.to_layout says by"
            " which layout"
        )
    local, layout = tensor_kind(value).shape, found.layout
    packed = local != layout.distributed_unpacked_shape
    if packed and local != layout.distributed_shape:
        raise Unsupported(
            f"{value.name} has the shape {list(local)}; by its layout a lane holds"
            f" {list(layout.distributed_unpacked_shape)}, or packed"
            f" {list(layout.distributed_shape)}"
        )
    kind = layout.undistributed_shape if whole is None else whole
    padding = False if whole is not None and whole.dtype == "bool" else 0
    return vector_ext.to_simt(kind, layout, **found.hardware, packed=packed, padding=padding)


def to_simt(scope: Scope, op: form.ParsedOperation) -> Value:
    """What lanes hold of a vector."""
    return HeldByLanes(scope.any_tensor(op.operands[0]), op.results[0])


def to_simd(scope: Scope, op: form.ParsedOperation) -> Value:
    """The vector of which lanes hold something."""
    lanes = scope.value(op.operands[0])
    if not isinstance(lanes, HeldByLanes):
        raise Unsupported(
            "gathers what lanes hold of what no to_simt distributed, and no argument is"
        )
    if tuple(lanes.whole.shape) != tuple(tensor_kind(op.results[0]).shape):
        raise Unsupported("gathers a vector of another shape than to_simt distributed")
    return lanes.whole


def on_wholes(values: Sequence[Any]) -> list[Any]:
    """The operands of an elementwise operation on what lanes hold, as whole vectors."""
    shape = next(one.whole.shape for one in values if isinstance(one, HeldByLanes))
    found: list[Any] = []
    for value in values:
        if isinstance(value, HeldByLanes):
            found.append(value.whole)
        elif isinstance(value, Splat):
            found.append(Splat(shape, value.element, value.scalar))
        elif isinstance(value, SCALARS):
            found.append(value)
        else:
            raise Unsupported("a vector beside what lanes hold, which is the same for all of them")
    return found
