"""Arithmetic element by element, on scalars and on vectors of one shape (rule R12).

Integers wrap and are signless: where a sign matters, the name of the op says it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.combining_kinds import combine
from tvm_iree_ext.vector.ir.core import Operation, Value, is_index
from tvm_iree_ext.vector.ir.definition import (
    Definition,
    RunBlock,
    definition,
    register,
    register_as,
)
from tvm_iree_ext.vector.ir.insertion import Insertion
from tvm_iree_ext.vector.ir.printing import ValueNames, dense
from tvm_iree_ext.vector.ir.rounding import narrowed
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import (
    FLOATS,
    INDEX,
    INTEGERS,
    ScalarType,
    Type,
    VectorType,
    bits,
    element_type,
    extents,
    numpy_type,
    short,
)
from tvm_iree_ext.vector.ops import checks

Function = Callable[..., Any]


def _unsigned(function: Function) -> Function:
    """A function of unsigned integers, for arrays of signed ones."""

    def of(*arrays: np.ndarray) -> np.ndarray:
        unsigned = np.dtype(f"u{arrays[0].dtype}")
        return np.asarray(function(*(one.view(unsigned) for one in arrays))).view(arrays[0].dtype)

    return of


def _toward_zero(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    quotient = a // b
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0)))


def _kind(name: str) -> Function:
    return lambda a, b: combine(name, a, b)


# Each name with its meaning; a bool is one bit.
FLOAT_BINARY: dict[str, Function] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.minnumf": np.fmin,
    "arith.maxnumf": np.fmax,
    "arith.minimumf": np.minimum,
    "arith.maximumf": np.maximum,
}
INTEGER_BINARY: dict[str, Function] = {
    "arith.addi": _kind("add"),
    "arith.subi": lambda a, b: np.bitwise_xor(a, b) if a.dtype == bool else a - b,
    "arith.muli": _kind("mul"),
    "arith.minsi": _kind("minsi"),
    "arith.maxsi": _kind("maxsi"),
    "arith.minui": _kind("minui"),
    "arith.maxui": _kind("maxui"),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
}
# Undefined for a divisor of 0, and for a shift by the width or more.  Not for bool.
WIDE_BINARY: dict[str, Function] = {
    "arith.divsi": _toward_zero,
    "arith.divui": _unsigned(np.floor_divide),
    "arith.remsi": np.fmod,
    "arith.remui": _unsigned(np.remainder),
    "arith.floordivsi": np.floor_divide,
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.shrui": _unsigned(np.right_shift),
}
UNARY: dict[str, Function] = {
    "arith.negf": np.negative,
    "math.absf": np.abs,
    "math.ceil": np.ceil,
    "math.floor": np.floor,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.log": np.log,
    "math.tanh": np.tanh,
    "math.erf": np.vectorize(math.erf, otypes=[np.float64]),
}


def _shapes(op: Operation, names: Sequence[str]) -> VectorType | ScalarType:
    """The operands' type, which is one."""
    first = checks.value_of(op, names[0])
    for name in names[1:]:
        type = checks.value_of(op, name)
        checks.same_shape(op, name, type.shape, first.shape, names[0])
        checks.same_dtype(op, name, type.dtype, first.dtype, names[0])
    return first


def with_dtype(type: VectorType | ScalarType, dtype: str) -> VectorType | ScalarType:
    """A type of the same shape with other elements."""
    return VectorType(type.shape, dtype) if isinstance(type, VectorType) else ScalarType(dtype)


class _Elementwise(Definition):
    """An op printed with one type, and counted when it is of vectors."""

    def text(self, op: Operation, names: ValueNames) -> str:
        return f"{names.list(op.operands)} : {op.result.type}"

    def spelling(self, op: Operation) -> str | None:
        if not op.result.is_vector:
            return None
        return f"{self.name.partition('.')[2]} {extents(op.result.shape)}"


@register_as(*FLOAT_BINARY, *INTEGER_BINARY, *WIDE_BINARY)
class Binary(_Elementwise):
    """``R[v] = f(lhs[v], rhs[v])``."""

    operands = ("lhs", "rhs")

    def result_types(self, op: Operation) -> Sequence[Type]:
        type = _shapes(op, self.operands)
        taken: tuple[str, ...] = FLOATS if op.name in FLOAT_BINARY else INTEGERS
        if op.name in WIDE_BINARY:
            taken = tuple(dtype for dtype in INTEGERS if dtype != "bool")
        if type.dtype not in taken:
            known = ", ".join(map(short, taken))
            raise op.error("E_ELEMENT_TYPE", f"lhs has {short(type.dtype)}; expected {known}")
        return [type]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        functions = {**FLOAT_BINARY, **INTEGER_BINARY, **WIDE_BINARY}
        with np.errstate(all="ignore"):
            return [np.asarray(functions[op.name](*values), values[0].dtype)]


@register_as(*UNARY)
class Unary(_Elementwise):
    """``R[v] = f(operand[v])``, on floats; computed in float64 and rounded."""

    operands = ("operand",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        type = _shapes(op, self.operands)
        if type.dtype not in FLOATS:
            raise op.error("E_ELEMENT_TYPE", f"operand has {short(type.dtype)}; expected floats")
        return [type]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        with np.errstate(all="ignore"):
            wide = np.asarray(UNARY[op.name](values[0].astype(np.float64)))
            return [narrowed(wide, values[0].dtype)]


FLOAT_PREDICATES: dict[str, Function] = {
    "oeq": np.equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "one": lambda a, b: (a < b) | (a > b),
    "ord": lambda a, b: (a == a) & (b == b),
    "ueq": lambda a, b: ~((a < b) | (a > b)),
    "ugt": lambda a, b: ~(a <= b),
    "uge": lambda a, b: ~(a < b),
    "ult": lambda a, b: ~(a >= b),
    "ule": lambda a, b: ~(a > b),
    "une": np.not_equal,
    "uno": lambda a, b: (a != a) | (b != b),
}
INTEGER_PREDICATES: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "ult": np.less,
    "ule": np.less_equal,
    "ugt": np.greater,
    "uge": np.greater_equal,
}


@register_as("arith.cmpf", "arith.cmpi")
class Compare(_Elementwise):
    """``R[v] = lhs[v] predicate rhs[v]``, as i1."""

    operands = ("lhs", "rhs")

    def result_types(self, op: Operation) -> Sequence[Type]:
        type = _shapes(op, self.operands)
        of_floats = op.name == "arith.cmpf"
        if type.dtype not in (FLOATS if of_floats else INTEGERS):
            what = "floats" if of_floats else "integers"
            raise op.error("E_ELEMENT_TYPE", f"lhs has {short(type.dtype)}; expected {what}")
        known = FLOAT_PREDICATES if of_floats else INTEGER_PREDICATES
        if op.attributes["predicate"] not in known:
            raise op.error(
                "E_KIND_TYPE",
                f"predicate {op.attributes['predicate']!r}; expected one of {', '.join(known)}",
            )
        return [with_dtype(type, "bool")]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        predicate = op.attributes["predicate"]
        if op.name == "arith.cmpf":
            with np.errstate(invalid="ignore"):
                return [np.asarray(FLOAT_PREDICATES[predicate](*values))]
        if values[0].dtype == bool:  # one bit, of which the sign bit is that bit
            values = [-one.astype(np.int8) for one in values]
        if predicate[0] == "u":
            values = [one.view(np.dtype(f"u{one.dtype}")) for one in values]
        return [np.asarray(INTEGER_PREDICATES[predicate](*values))]

    def text(self, op: Operation, names: ValueNames) -> str:
        type = op.operand("lhs").type
        return f"{op.attributes['predicate']}, {names.list(op.operands)} : {type}"


@register
class Select(_Elementwise):
    """``R[v] = condition[v] ? on_true[v] : on_false[v]``; a scalar condition chooses for all."""

    name = "arith.select"
    operands = ("condition", "on_true", "on_false")

    def result_types(self, op: Operation) -> Sequence[Type]:
        condition = checks.value_of(op, "condition")
        type = _shapes(op, self.operands[1:])
        checks.same_dtype(op, "condition", condition.dtype, "bool", "a condition")
        if condition.shape:
            checks.same_shape(op, "condition", condition.shape, type.shape, "on_true")
        return [type]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        condition, on_true, on_false = values
        return [np.where(condition, on_true, on_false)]

    def text(self, op: Operation, names: ValueNames) -> str:
        condition = op.operand("condition").type
        return f"{names.list(op.operands)} : {condition}, {op.result.type}"


# Which elements a cast takes and gives, and whether the result must be wider (1) or narrower (-1).
CASTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], int]] = {
    "arith.extf": (FLOATS, FLOATS, 1),
    "arith.truncf": (FLOATS, FLOATS, -1),
    "arith.extsi": (INTEGERS, INTEGERS, 1),
    "arith.extui": (INTEGERS, INTEGERS, 1),
    "arith.trunci": (INTEGERS, INTEGERS, -1),
    "arith.sitofp": (INTEGERS, FLOATS, 0),
    "arith.uitofp": (INTEGERS, FLOATS, 0),
    "arith.fptosi": (FLOATS, INTEGERS, 0),
    "arith.fptoui": (FLOATS, INTEGERS, 0),
    "arith.index_cast": (INTEGERS, INTEGERS, 0),
    "arith.bitcast": (FLOATS + INTEGERS, FLOATS + INTEGERS, 0),
}


@register_as(*CASTS)
class Cast(_Elementwise):
    """Elements converted.  A float whose integer the type lacks is undefined."""

    operands = ("operand",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        type = checks.value_of(op, "operand")
        result = with_dtype(type, op.attributes["dtype"])
        taken, given, wider = CASTS[op.name]
        widths = bits(type.dtype), bits(result.dtype)
        is_sound = type.dtype in taken and result.dtype in given
        if wider:
            is_sound &= INDEX not in (type.dtype, result.dtype)
            is_sound &= widths[0] < widths[1] if wider > 0 else widths[0] > widths[1]
        elif op.name == "arith.index_cast":
            is_sound &= (type.dtype == INDEX) != (result.dtype == INDEX)
        elif op.name == "arith.bitcast":
            is_sound &= widths[0] == widths[1]
        else:
            is_sound &= INDEX not in (type.dtype, result.dtype)
        if not is_sound:
            raise op.error("E_ELEMENT_TYPE", f"does not take {type} to {result}")
        return [result]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        array, dtype = values[0], numpy_type(op.attributes["dtype"])
        short_name = op.name.partition(".")[2]
        if short_name == "bitcast":
            return [np.ascontiguousarray(array).view(dtype).reshape(array.shape)]
        if array.dtype == bool and short_name in ("extsi", "sitofp", "index_cast"):
            array = -array.astype(np.int8)
        elif short_name in ("extui", "uitofp") and array.dtype != bool:
            array = array.view(np.dtype(f"u{array.dtype}"))
        if dtype.kind == "b":  # the lowest bit
            return [(array.astype(np.int64) & 1).astype(bool)]
        with np.errstate(all="ignore"):
            if short_name == "fptoui":
                return [array.astype(np.dtype(f"u{dtype}")).view(dtype)]
            return [narrowed(array, dtype) if op.name == "arith.truncf" else array.astype(dtype)]

    def text(self, op: Operation, names: ValueNames) -> str:
        return f"{names.list(op.operands)} : {op.operand('operand').type} to {op.result.type}"


@register
class ArithConstant(Definition):
    """A number, or an array of them."""

    name = "arith.constant"

    def result_types(self, op: Operation) -> Sequence[Type]:
        return [op.attributes["type"]]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return [op.attributes["value"]]

    def text(self, op: Operation, names: ValueNames) -> str:
        value, type = op.attributes["value"], op.result.type
        return (
            f"dense<{dense(value)}> : {type}" if op.result.is_vector else f"{dense(value)} : {type}"
        )


class ElementwiseOps(Insertion):
    """The builder's arithmetic.  :meth:`elementwise` makes any op by its name."""

    def elementwise(self, name: str, *operands: Value, **attributes: Any) -> Value:
        """An elementwise op such as ``arith.addf`` or ``math.exp``."""
        full = name if "." in name else f"arith.{name}"
        expected = definition(full).operands
        if len(operands) != len(expected):
            raise VectorError(
                "E_ATTR_LENGTH",
                f"{full}: {len(operands)} operands; expected {', '.join(expected)}",
            )
        named = dict(zip(expected, operands, strict=True))
        return self.create(full, named, attributes).result

    def compare(self, predicate: str, lhs: Any, rhs: Any) -> Value:
        """``lhs predicate rhs`` as i1, by MLIR's predicates: slt, oeq, ...; one may be a number."""
        lhs, rhs = self._pair(lhs, rhs)
        name = "arith.cmpf" if lhs.dtype in FLOATS else "arith.cmpi"
        return self.create(name, {"lhs": lhs, "rhs": rhs}, {"predicate": predicate}).result

    def select(self, condition: Value, on_true: Value, on_false: Value) -> Value:
        """One of two values, or lane by lane."""
        operands = {"condition": condition, "on_true": on_true, "on_false": on_false}
        return self.create("arith.select", operands).result

    def convert(self, operand: Value, dtype: str, *, unsigned: bool = False) -> Value:
        """The elements in another type, by whichever cast does it."""
        to, came = element_type(dtype), operand.dtype
        if to == came:
            return operand
        if INDEX in (to, came):
            name = "index_cast"
        elif came in FLOATS and to in FLOATS:
            if bits(to) == bits(came):  # f16 and bf16: neither holds the other's numbers
                operand = self.convert(operand, "f32")
            name = "extf" if bits(to) > bits(operand.dtype) else "truncf"
        elif came in FLOATS:
            name = "fptoui" if unsigned else "fptosi"
        elif to in FLOATS:
            name = "uitofp" if unsigned else "sitofp"
        elif bits(to) < bits(came):
            name = "trunci"
        else:
            name = "extui" if unsigned else "extsi"
        return self.create(f"arith.{name}", {"operand": operand}, {"dtype": to}).result

    def arithmetic(self, name: str, lhs: Any, rhs: Any) -> Value:
        """Build Python's operators add, sub, mul, div; of positions, folded where known."""
        lhs, rhs = self._pair(lhs, rhs)
        if is_index(lhs) and is_index(rhs):
            folded = self._folded(name, lhs, rhs)
            if folded is not None:
                return folded
        suffix = "f" if lhs.dtype in FLOATS else ("si" if name == "div" else "i")
        return self.create(f"arith.{name}{suffix}", {"lhs": lhs, "rhs": rhs}).result

    def _folded(self, name: str, lhs: Value, rhs: Value) -> Value | None:
        """The value of index arithmetic that needs no op."""
        a, b = lhs.constant, rhs.constant
        if a is not None and b is not None and name != "div":
            return self.index({"add": a + b, "sub": a - b, "mul": a * b}[name])
        if b == {"add": 0, "sub": 0, "mul": 1, "div": 1}[name]:
            return lhs
        if a == {"add": 0, "mul": 1}.get(name):
            return rhs if a is not None else None
        if name == "mul" and 0 in (a, b):
            return self.index(0)
        return None

    def _pair(self, lhs: Any, rhs: Any) -> tuple[Value, Value]:
        """Two operands, of which one may be a number."""
        if not isinstance(lhs, Value) and not isinstance(rhs, Value):
            return self.index(lhs), self.index(rhs)
        type = lhs.type if isinstance(lhs, Value) else rhs.type
        if not isinstance(type, ScalarType | VectorType):
            raise VectorError("E_RANK", f"arithmetic: {type}; expected vectors or scalars")
        return self.element(lhs, type), self.element(rhs, type)
