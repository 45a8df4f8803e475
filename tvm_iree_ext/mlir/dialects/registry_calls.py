"""Calls of the registry's ops: operand types, regions, arguments in the signature's order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import FLOATS, FLOATS8, WORDS
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.mlir.base.elements import Pair
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    SCALARS,
    TENSORS,
    AnyTensor,
    Applied,
    Number,
    Scalar,
    Shape,
    Symbol,
    Value,
    extent,
)
from tvm_iree_ext.mlir.dialects.complex_words import joined, parted, words_like
from tvm_iree_ext.mlir.dialects.linalg_generic import outside
from tvm_iree_ext.mlir.importing.emitted_values import computed, converted
from tvm_iree_ext.mlir.importing.prim_func_builder import in_memory
from tvm_iree_ext.mlir.importing.relax_types import MOST_EXTENT
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import Context
from tvm_iree_ext.mlir.scalars.scalar_regions import Evaluator, as_argument
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.parameters import passed_dtype
from tvm_iree_ext.ops.base.regions import RegionLike
from tvm_iree_ext.tir import number_words


def extent_names(scope: Scope, shape: Shape) -> tuple[Extent, ...]:
    """A shape as the registry's ops take it: equal extents have one name."""
    names = scope.function.extent_names
    found: list[Extent] = []
    for one in shape:
        number = scope.simple(one)
        if isinstance(number, int):
            found.append(number)
            continue
        text = str(number)
        if text not in names:
            known = number.name if isinstance(number, tirx.Var) else f"extent{len(names)}"
            names[text] = known
        found.append(names[text])
    return tuple(found)


def type_of(scope: Scope, value: AnyTensor, *, moves: bool = False) -> TensorType:
    """An operand's type; elements without arithmetic of their own are taken where they are moved.

    Raises:
        Unsupported: for complex numbers and floats of 8 bits where they are computed with.
    """
    kind = value.element
    if kind.is_complex or (kind.storage[0] == "uint8" and kind.name != "uint8" and not moves):
        raise Unsupported(f"an operand of {kind.name}")
    return TensorType(extent_names(scope, value.shape), kind.storage[0])


def factor_type_of(scope: Scope, value: AnyTensor) -> TensorType:
    """An operand's type for an op that multiplies, floats of 8 bits as such.

    Raises:
        Unsupported: for complex numbers and other floats of 8 bits.
    """
    if value.element.name in FLOATS8:
        return TensorType(extent_names(scope, value.shape), value.element.name)
    return type_of(scope, value)


def element_type_of(scope: Scope, value: AnyTensor) -> TensorType:
    """An operand's type for an op that takes every element type, by its own name.

    Raises:
        Unsupported: for other floats of 8 bits.
    """
    if value.element.name in WORDS:
        return TensorType(extent_names(scope, value.shape), value.element.name)
    return type_of(scope, value)


def region_of(scope: Scope, block: form.ParsedBlock, operands: dict[str, Value]) -> RegionLike:
    """A region as a function of TIR expressions.

    Numbers from outside that only a run tells become operands of the op, which are added to
    ``operands``.  The op sees the dims along which the region takes positions.
    """
    captured = captured_scalars(scope, block)
    operands |= captured.operands
    count, dims = len(block.arguments), _indexed_dims(block)

    def region(*arguments: Any) -> Any:
        context = Context(wide=True, named=len(block.operations) == 2)
        own, rest = arguments[:count], arguments[count:]
        context.position = dict(zip(dims, rest, strict=False))
        for position in context.position.values():
            context.analyzer.bind(position, ir.Range(0, MOST_EXTENT))
        known = captured.known(rest[len(dims) :])
        held = [
            as_argument(value, argument.type)
            for value, argument in zip(own, block.arguments, strict=True)
        ]
        found = Evaluator(context, scope.value, known).run(block, held)
        # The last arguments are what is yielded as it was, a comparator's but for its type.
        shown = zip(own[-len(found) :], held[-len(found) :], strict=True)
        found = [_as_shown(one, *last) for one, last in zip(found, shown, strict=True)]
        return found[0] if len(found) == 1 else tuple(found)

    return captured.region(region, dims)


def _as_shown(value: Any, argument: Any, held: Any) -> Any:
    """What a region yields, in the type in which an op shows it the argument.

    That is wider than in the text where another operand is; what the text yields as it came, comes
    as it was shown.
    """
    if isinstance(value, Pair):
        return number_words.ComplexNumber(*value)
    if value is held:
        return argument
    if isinstance(argument, ir.Expr):
        came, shown = str(value.ty.dtype), str(argument.ty.dtype)
        if came != shown and {came, shown} <= {*FLOATS}:
            return tirx.Cast(shown, value)
    return value


@dataclass(frozen=True)
class CapturedScalars:
    """The numbers from outside that a block uses and only a run tells, by names for them.

    A complex number is two, its parts.
    """

    values: Sequence[tuple[form.ParsedValue, Mapping[str, Scalar]]]

    @property
    def operands(self) -> dict[str, Value]:
        """What the op is to be called with."""
        return {name: one for _, scalars in self.values for name, one in scalars.items()}

    def known(self, numbers: Sequence[Any]) -> dict[int, Any]:
        """What stands for the values, by their ids, in a region that is given ``numbers``."""
        given = iter(numbers)
        found: dict[int, Any] = {}
        for value, scalars in self.values:
            own = [next(given) for _ in scalars]
            found[id(value)] = Pair(*own) if len(own) > 1 else as_argument(own[0], value.type)
        return found

    def region(self, region: Callable[..., Any], dims: Sequence[int] = ()) -> RegionLike:
        """The function as an op takes it, when it takes the numbers behind its own arguments."""
        dtypes = {
            name: one.element.storage[0]
            for _, scalars in self.values
            for name, one in scalars.items()
        }
        return ops.region(region, dims, **dtypes) if dtypes or dims else region


def _indexed_dims(block: form.ParsedBlock) -> list[int]:
    """The dims whose positions a block takes, also in blocks inside."""
    dims: set[int] = set()
    for op in block.operations:
        if op.name == "iree_linalg_ext.index":
            dims.add(int(op.attributes["dim"]))
        for inner in (inner for region in op.regions for inner in region):
            dims.update(_indexed_dims(inner))
    return sorted(dims)


def captured_scalars(scope: Scope, block: form.ParsedBlock) -> CapturedScalars:
    """The numbers of a block that only a run tells."""
    found: list[tuple[form.ParsedValue, Mapping[str, Scalar]]] = []
    for value in outside([block]):
        scalar = scope.value(value)
        if isinstance(scalar, SCALARS) and not isinstance(scalar, Number):
            found.append((value, _captured(f"captured{len(found)}", scalar)))
    return CapturedScalars(found)


def _captured(name: str, scalar: Scalar) -> dict[str, Scalar]:
    """What an op is called with for a number: what a region computes with, by names."""
    kind = scalar.element
    if kind.is_complex:
        part = kind.part.name
        return {
            f"{name}_{which}": converted(scalar, f"complex.{which}", part) for which in ("re", "im")
        }
    if kind.name in FLOATS8:
        return {name: converted(scalar, "arith.extf", kind.held)}
    return {name: scalar}


def is_identity(block: form.ParsedBlock) -> bool:
    """Whether a region yields its only argument."""
    return len(block.operations) == 1 and block.operations[0].operands == [block.arguments[0]]


def call_op(
    scope: Scope, op: Op, operands: Mapping[str, Value], results: Sequence[AnyTensor]
) -> list[Value]:
    """Call an op with operands by the names of its signature; results are like ``results``."""
    arguments: list[Any] = []
    scalars: dict[str, str] = {}
    for operand in op.signature.arguments:
        value = operands[operand.name]
        if operand.role == "scalar":
            if not isinstance(value, SCALARS):
                raise Unsupported(f"{operand.name} is no scalar")
            if not isinstance(value, Applied):
                arguments.append(passed(value, operand.dtype))
                continue
            tensor = computed(scope, value)
            arguments += tensor.parts
            scalars[operand.name] = tensor.element.storage[0]
            continue
        if not isinstance(value, TENSORS):
            raise Unsupported(f"{operand.name} is no tensor")
        tensor = joined(scope, value) if value.element.is_complex else in_memory(scope, value)
        arguments += tensor.parts
    _settle(scope, op, operands, results)
    kinds = [one.element for one in results]
    outputs = [(one.shape, one.element) for one in map(words_like, results)]
    found = scope.called_op(op.in_words, arguments, outputs, scalars)
    return [
        parted(scope, one, kind) if kind.is_complex else one
        for one, kind in zip(found, kinds, strict=True)
    ]


def _settle(
    scope: Scope, op: Op, operands: Mapping[str, Value], results: Sequence[AnyTensor]
) -> None:
    """Have the extents be equal that the op takes for one, where a call's arguments say them."""
    pairs = [(operand, operands[operand.name]) for operand in op.signature.arguments]
    pairs += zip(op.signature.results, results, strict=True)
    known: dict[Extent, Any] = {}
    for operand, value in pairs:
        if isinstance(value, TENSORS):
            for wanted, came in zip(operand.shape, value.shape, strict=True):
                if isinstance(wanted, int):
                    scope.function.settle(came, wanted)
                elif wanted.isidentifier():
                    scope.function.settle(known.setdefault(wanted, came), came)


def passed(value: Number | Symbol, dtype: str) -> Any:
    """A number, or arithmetic on extents, as an argument by value."""
    if isinstance(value, Number):
        kind = passed_dtype(dtype)
        return tirx.const(float(value.value) if "float" in kind else int(value.value), kind)
    return extent(value.value)
