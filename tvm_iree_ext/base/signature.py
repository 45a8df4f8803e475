"""The operands of an op or kernel, in call order: names, shapes, dtypes, roles.

An extent is an ``int``, or a name for one that is known when the kernel is called; one name
stands for one extent in all operands.  An extent may also be an expression over names, such as
``ceildiv(rows, 8)`` or ``max(0, rows - 1)``, which stand alone in some argument.  No TVM here: a
deployed kernel checks its call with this.
"""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tvm_iree_ext.base.dtypes import is_dtype
from tvm_iree_ext.base.errors import CallError

Extent = int | str
Shape = tuple[Extent, ...]
Role = Literal["input", "scalar", "result", "unused"]
Default = bool | int | str
"""A number with which an operand is filled that a caller leaves out; infinities are texts."""


def shape_text(shape: Iterable[Extent]) -> str:
    """``[1, heads, 64]``."""
    return "[" + ", ".join(map(str, shape)) + "]"


_ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
Calls = Mapping[str, Callable[[Any, Any], Any]]
_OF_NUMBERS: Calls = {"ceildiv": lambda a, b: -(-a // b), "max": max, "min": min}


def evaluate(extent: Extent, values: Mapping[str, Any], calls: Calls = _OF_NUMBERS) -> Any:
    """Evaluate an extent, given the values of names: numbers, or a compiler's expressions.

    ``calls`` are the functions of such: ``ceildiv``, ``max`` and ``min``.

    Raises:
        KeyError: for a name without a value.
    """
    if isinstance(extent, int):
        return extent
    if extent in values:
        return values[extent]

    def visit(node: ast.AST) -> Any:
        match node:
            case ast.Constant(int(value)):
                return value
            case ast.Name(name):
                return values[name]
            case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
                return _ARITHMETIC[type(op)](visit(left), visit(right))
            case ast.UnaryOp(ast.USub(), ast.Constant(int(value))):
                return -value
            case ast.Call(ast.Name(name), [a, b]) if name in calls:
                return calls[name](visit(a), visit(b))
        raise ValueError(f"extent {extent!r}: {ast.unparse(node)} is no arithmetic of extents")

    return visit(ast.parse(extent, mode="eval").body)


def extent_value(extent: Extent, values: Mapping[str, int]) -> int:
    """The number that an extent stands for; KeyError for a name without a value."""
    return int(evaluate(extent, values))


@dataclass(frozen=True)
class Operand:
    """One parameter of a kernel.

    ``scalar`` is a number passed by value (its shape is ``()``); ``result`` is written, never read;
    ``unused`` is an argument of programs that may be anything (its shape and dtype say nothing).
    ``least``, where it is given, is the least extent that each axis may have.  ``in_place_of`` is
    the input whose memory a result may take on a CPU: it then begins as what stands there.  Where
    one of the extents ``over`` is 0, nothing is combined, and a result is its ``init``, an input;
    without one it is computed all the same, as of a sum without terms.  An input with a ``default``
    is filled with that where a caller leaves it out.  ``words`` is the type of the words that a
    kernel takes in place of its elements, where it does: of ``uint64x2`` a last axis has the two.
    One with ``strides``, in elements, is taken as it lies, where all others are contiguous; so is a
    result in its place.
    """

    name: str
    shape: Shape
    dtype: str
    role: Role = "input"
    least: Shape = ()
    in_place_of: str = ""
    init: str = ""
    over: Shape = ()
    default: Default | None = None
    words: str = ""
    strides: Shape = ()

    def __str__(self) -> str:
        if self.role == "unused":
            return f"{self.name}: unused"
        strides = f" strides {shape_text(self.strides)}" if self.strides else ""
        return f"{self.name}: {self.dtype}{shape_text(self.shape)}{strides}"


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel: inputs and scalars as a caller passes them, then the results."""

    operands: tuple[Operand, ...]

    @property
    def arguments(self) -> tuple[Operand, ...]:
        """Operands that a caller passes, in order."""
        return tuple(o for o in self.operands if o.role != "result")

    @property
    def results(self) -> tuple[Operand, ...]:
        """Operands that the kernel writes, in order."""
        return tuple(o for o in self.operands if o.role == "result")

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the extents that are known at call time, by first use."""
        return _names(self.operands)

    @property
    def result_symbols(self) -> tuple[str, ...]:
        """Symbols that only the results have; their values come with ``out`` arrays."""
        known = _names(self.arguments)
        return tuple(name for name in _names(self.results) if name not in known)

    def bind(self, op: str, shapes: Sequence[Sequence[int] | None]) -> dict[str, int]:
        """The symbols' values, from the shapes of the arguments (None for a scalar).

        Raises:
            CallError: when a rank or an extent does not fit; ``op`` and the operand are named.
        """
        bound: dict[str, int] = {}
        first: dict[str, str] = {}
        computed: list[tuple[str, int, str]] = []
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
                if isinstance(want, str) and not want.isidentifier():
                    computed.append((where, came, want))
                    continue
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
        for where, came, want in computed:
            if came != (number := extent_value(want, bound)):
                raise CallError(f"{op}: {where} has extent {came}; expected {number} ({want})")
        return bound

    def of_nothing(self, bound: Mapping[str, int]) -> dict[str, str] | None:
        """For each result with elements its init, where there is nothing to be combined with it.

        None where a result must be computed, all of them, or that cannot be: see :meth:`undefined`.
        """
        filled = [one for one in self.results if 0 not in _numbers(one.shape, bound)]
        if self.results and all(one.init and 0 in _numbers(one.over, bound) for one in filled):
            return {one.name: one.init for one in filled}
        return None

    @property
    def may_be_0(self) -> tuple[str, ...]:
        """The names of extents that may be 0 while a result has elements."""
        refused = {
            extent
            for one in self.operands
            for extent, least in zip(one.shape, one.least, strict=False)
            if isinstance(least, int) and least > 0
        }
        names = dict.fromkeys(e for one in self.results for e in one.over if isinstance(e, str))
        return tuple(e for e in names if e not in refused and self._is_filled(self.without(e)))

    def without(self, extent: str) -> dict[str, int]:
        """Values of the symbols, one of which is 0, and others as large as they may be."""
        return {**dict.fromkeys(self.symbols, 1 << 30), extent: 0}

    def _is_filled(self, bound: Mapping[str, int]) -> bool:
        """Whether a result has elements, and all those that do are defined."""
        try:
            filled = [one for one in self.results if 0 not in _numbers(one.shape, bound)]
        except ZeroDivisionError:  # a tile of extent 0, of which no call is taken
            return False
        return bool(filled) and all(0 in _numbers(one.over, bound) for one in filled)

    def undefined(self, bound: Mapping[str, int]) -> Operand | None:
        """An operand without elements, where a result has some that nothing defines then."""
        if all(0 in _numbers((*one.shape, *one.over), bound) for one in self.results):
            return None
        return next((one for one in self.operands if 0 in _numbers(one.shape, bound)), None)

    def result_shapes(self, bound: Mapping[str, int]) -> list[tuple[int, ...]]:
        """The shapes of the results for the symbols of :meth:`bind`."""
        return [tuple(extent_value(e, bound) for e in result.shape) for result in self.results]

    def bind_results(
        self, op: str, bound: dict[str, int], shapes: Sequence[Sequence[int]] | None
    ) -> None:
        """Add the symbols that only results have to ``bound``, from the ``out`` arrays' shapes.

        Raises:
            CallError: when there are none, when a rank does not fit, and when an axis of any
                operand is too short.
        """
        missing = self.result_symbols
        if missing and shapes is None:
            raise CallError(
                f"{op}: the result's extent {missing[0]} follows from no argument; give out="
            )
        for operand, shape in zip(self.results, shapes or (), strict=False):
            if len(shape) != len(operand.shape):
                raise CallError(
                    f"{op}: {operand.name} has rank {len(shape)}; expected {len(operand.shape)}"
                    f" for {shape_text(operand.shape)}"
                )
            for came, want in zip(shape, operand.shape, strict=True):
                if want in missing:
                    bound.setdefault(str(want), came)
        for operand in self.operands:
            for axis, (extent, least) in enumerate(zip(operand.shape, operand.least, strict=False)):
                try:
                    came, needed = extent_value(extent, bound), extent_value(least, bound)
                except ZeroDivisionError:
                    raise CallError(f"{op}: {operand.name} has tiles of extent 0") from None
                if came < needed:
                    raise CallError(
                        f"{op}: {operand.name} axis {axis} has extent {came};"
                        f" expected at least {needed} ({least})"
                    )

    def to_json(self) -> list[dict[str, Any]]:
        """A list of plain dictionaries, for a manifest."""
        return [
            {
                "name": o.name,
                "shape": list(o.shape),
                "dtype": o.dtype,
                "role": o.role,
                **({"least": list(o.least)} if o.least else {}),
                **({"in_place_of": o.in_place_of} if o.in_place_of else {}),
                **({"init": o.init} if o.init else {}),
                **({"over": list(o.over)} if o.over else {}),
                **({} if o.default is None else {"default": o.default}),
                **({"words": o.words} if o.words else {}),
                **({"strides": list(o.strides)} if o.strides else {}),
            }
            for o in self.operands
        ]

    @staticmethod
    def from_json(data: Iterable[Any], *, may_be_void: bool = False) -> "Signature":
        """The inverse of :meth:`to_json`; without a result only where it ``may_be_void``.

        Raises:
            ValueError: for what that does not write, saying which operand and what came.
        """
        signature = Signature(tuple(_operand(place, o) for place, o in enumerate(data)))
        if not signature.results and not may_be_void:
            raise ValueError("no operand is a result")
        homes = {(o.name, o.shape, o.dtype) for o in signature.operands if o.role == "input"}
        for operand in signature.operands:
            for field in ("in_place_of", "init"):
                if (home := getattr(operand, field)) and (
                    operand.role != "result" or (home, operand.shape, operand.dtype) not in homes
                ):
                    raise ValueError(f"{operand.name} has the {field} {home!r}")
        some = dict.fromkeys(signature.symbols, 1 << 30)
        for operand in signature.operands:
            for extent in (*operand.shape, *operand.least, *operand.over, *operand.strides):
                try:
                    extent_value(extent, some)
                except (ValueError, KeyError, SyntaxError, ZeroDivisionError):
                    raise ValueError(f"{operand.name} has the extent {extent!r}") from None
        return signature


def _operand(place: int, data: Any) -> Operand:
    """An operand from what :meth:`Signature.to_json` writes for it; ValueError for all else."""
    if not isinstance(data, dict):
        raise ValueError(f"operand {place} is {data!r}")
    fields = {**_ABSENT, **data}
    for name, is_sound in _SOUND.items():
        if name not in fields:
            raise ValueError(f"operand {place} has no {name}")
        if not is_sound(fields[name]):
            raise ValueError(f"operand {place} has the {name} {fields[name]!r}")
    lists = ("shape", "least", "over", "strides")
    shape, least, over, strides = (tuple(fields[name]) for name in lists)
    if strides and len(strides) != len(shape):
        raise ValueError(f"operand {place} has the strides {fields['strides']!r}")
    home, init = fields["in_place_of"], fields["init"]
    return Operand(
        fields["name"],
        shape,
        fields["dtype"],
        fields["role"],
        least,
        home,
        init,
        over,
        fields["default"],
        fields["words"],
        strides,
    )


WORD_KINDS = ("int8", "uint8", "uint64", "uint64x2")
"""What may be an operand's ``words``."""
_ABSENT: dict[str, Any] = {
    "least": [],
    "in_place_of": "",
    "init": "",
    "over": [],
    "default": None,
    "words": "",
    "strides": [],
}
_INFINITIES = ("inf", "-inf")


def is_shape(value: Any) -> bool:
    """Whether a value of JSON is a list of extents: numbers, and names or expressions."""
    return isinstance(value, list) and all(
        isinstance(e, str) or (type(e) is int and e >= 0) for e in value
    )


_SOUND: dict[str, Callable[[Any], bool]] = {
    "name": lambda value: isinstance(value, str),
    "shape": is_shape,
    "dtype": lambda value: isinstance(value, str) and is_dtype(value),
    "role": lambda value: value in get_args(Role),
    "least": is_shape,
    "in_place_of": lambda value: isinstance(value, str),
    "init": lambda value: isinstance(value, str),
    "over": is_shape,
    "words": lambda value: value in ("", *WORD_KINDS),
    "strides": is_shape,
    "default": lambda value: value is None or type(value) in (bool, int) or value in _INFINITIES,
}


def _numbers(extents: Shape, bound: Mapping[str, int]) -> list[int]:
    """Values of extents; 1 for one that is not known."""
    known = [e for e in extents if isinstance(e, int) or bound]
    return [extent_value(extent, bound) for extent in known] or [1]


def _names(operands: Iterable[Operand]) -> tuple[str, ...]:
    """The names in the shapes of some operands, by first use; not those inside expressions."""
    extents = (
        e
        for o in operands
        for e in (*o.shape, *o.strides)
        if isinstance(e, str) and e.isidentifier()
    )
    return tuple(dict.fromkeys(extents))


@dataclass(frozen=True)
class TensorType:
    """A shape with a dtype, for ops whose operands differ in dtype."""

    shape: Shape
    dtype: str
