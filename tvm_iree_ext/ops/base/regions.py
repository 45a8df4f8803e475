"""Regions: the scalar functions inside an op, traced once into TIR.

A region is given as a Python callable over TIR expressions (``lambda score: 30 * tanh(score)``),
or as the text of an expression over ``arg0``, ``arg1``, ...
(see :mod:`tvm_iree_ext.base.scalar_text`).  The usual ones have names: see :data:`NAMED`.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

from tvm_iree_ext.base import scalar_text
from tvm_iree_ext.base.dtypes import COMPLEX, FLOATS8, WORDS, limits, word_dtype
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops.base.region_scalars import RegionScalar, ScalarRegion
from tvm_iree_ext.tir import bool_order, number_words
from tvm_iree_ext.tir.nan_comparisons import with_nan_comparisons
from tvm_iree_ext.tir.purity import is_pure
from tvm_iree_ext.tir.region_size import check_size
from tvm_iree_ext.tir.safe_divisions import with_safe_divisions
from tvm_iree_ext.tir.tvm_modules import ir, tirx, tvm_ffi

PlainRegion = str | Callable[..., Any]
RegionLike = PlainRegion | ScalarRegion
"""A scalar function: text over ``arg0``, ``arg1`` and so on, or a callable over TIR expressions;
or one of these that takes numbers of a call, too (:func:`.region_scalars.region`)."""
RegionsLike = RegionLike | Sequence[str]
"""A region that yields several values: a callable, a text with commas, or a text for each."""

Compare = Callable[[Any, Any], Any]

NAMED: dict[str, str] = {
    "add": "arg0 + arg1",
    "mul": "arg0 * arg1",
    "min": "min(arg0, arg1)",
    "max": "max(arg0, arg1)",
    "and": "arg0 & arg1",
    "or": "arg0 | arg1",
    "xor": "arg0 ^ arg1",
    "<": "arg0 < arg1",
    "<=": "arg0 <= arg1",
    ">": "arg0 > arg1",
    ">=": "arg0 >= arg1",
}
"""Names that stand for the text of a region of two arguments."""


def maximum(a: Any, b: Any) -> ir.Expr:
    """The larger of two; NaN where either float is, as ``arith.maximumf`` and NumPy say."""
    return _with_nan(_ordered(tirx.max, a, b), operator.gt, operator.ge)


def minimum(a: Any, b: Any) -> ir.Expr:
    """The smaller of two; NaN where either float is, as ``arith.minimumf`` and NumPy say."""
    return _with_nan(_ordered(tirx.min, a, b), operator.lt, operator.le)


def _ordered(choose: Callable[..., Any], a: Any, b: Any) -> ir.Expr:
    if isinstance(a, number_words.ComplexNumber) or isinstance(b, number_words.ComplexNumber):
        return a < b  # which says that they have no order
    return choose(a, b)


def _with_nan(chosen: ir.Expr, wins: Compare, wins_or_equals: Compare) -> ir.Expr:
    if not isinstance(chosen, tirx.Max | tirx.Min):
        return chosen
    a, b, dtype = chosen.a, chosen.b, str(chosen.ty.dtype)
    if dtype == "bool":  # TVM has no code for max and min of bool
        return a | b if isinstance(chosen, tirx.Max) else a & b
    if "float" not in dtype:
        return chosen
    # TVM's own forget a NaN in the first operand.  The sum of two that do not compare is NaN.
    return tirx.Select(wins(a, b), a, tirx.Select(wins_or_equals(b, a), b, a + b))


def select(condition: Any, a: Any, b: Any) -> ir.Expr:
    """``a`` where the condition holds, else ``b``; a bare number takes the other's type."""
    if isinstance(a, number_words.ComplexNumber) or isinstance(b, number_words.ComplexNumber):
        a, b = number_words.both_complex(a, b)
        return number_words.ComplexNumber(
            tirx.Select(condition, a.real, b.real), tirx.Select(condition, a.imag, b.imag)
        )
    if isinstance(a, ir.Expr) and isinstance(b, int | float):
        b = tirx.const(b, str(a.ty.dtype))
    elif isinstance(b, ir.Expr) and isinstance(a, int | float):
        a = tirx.const(a, str(b.ty.dtype))
    return tirx.Select(condition, a, b)


def absolute(number: Any) -> ir.Expr:
    """The absolute value: of a complex number a float, else of the number's type."""
    return abs(number) if isinstance(number, number_words.ComplexNumber) else tirx.abs(number)


OF_FLOATS = ("erf", "exp", "exp2", "log", "rsqrt", "sigmoid", "sqrt", "tanh")
"""The functions of ``tirx`` that a text may call, and that have code for floats only."""


def _of_floats(name: str, dtype: str) -> Callable[[Any], Any]:
    """A function of :data:`OF_FLOATS`, which takes an integer as a float of ``dtype``."""

    def call(number: Any) -> Any:
        if isinstance(number, number_words.ComplexNumber):
            raise TypeError(
                f"{name}() takes no complex number; it takes real(...), imag(...) and abs(...) of"
                " one"
            )
        if not isinstance(number, ir.Expr):
            number = tirx.const(float(number), dtype)
        elif "float" not in str(number.ty.dtype):
            number = tirx.Cast(dtype, number)
        return getattr(tirx, name)(number)

    call.__qualname__ = name  # which Python says where a call of it does not fit
    return call


TIR_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _of_floats(name, "float32") for name in OF_FLOATS},
    "abs": absolute,
    "conj": number_words.conjugate,
    "imag": number_words.part_of("imag"),
    "max": maximum,
    "min": minimum,
    "real": number_words.part_of("real"),
    "select": select,
}
"""The functions that the text of a region may call, where no argument is a float64."""


def _functions(dtypes: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Those over scalars of these types; of floats of 8 bits a sum is a long expression."""
    if "float64" in map(number_words.held_dtype, dtypes):
        return TIR_FUNCTIONS | {name: _of_floats(name, "float64") for name in OF_FLOATS}
    if not set(dtypes) & set(FLOATS8):
        return TIR_FUNCTIONS

    def chosen(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            value = function(*arguments)
            if not isinstance(value, tirx.Select) or str(value.ty.dtype) != "float32":
                return value
            last = value.false_value
            nan = tirx.Select(last.condition, last.true_value, number_words.nan())
            return tirx.Select(value.condition, value.true_value, nan)

        return call

    return {**TIR_FUNCTIONS, "max": chosen(maximum), "min": chosen(minimum)}


Traced = tuple[tuple[Any, ...], Any, tuple[Any, ...]]
"""The parameters of a region, the expression that it yields, and that of each part of the number,
where this is over words."""


@dataclass(frozen=True, eq=False)
class Region:
    """A region: parameters, the expression that it yields, and its text.

    ``dims`` are the iteration dims of the last parameters, which are positions along these.

    ``source`` is the expression's text where the region was given as one; from it the same
    function can be had over arrays.  ``trace`` gives parameters and expression, when they are
    first asked for: of a region with a name TVM need not say what it yields.
    """

    text: str
    source: str | None
    trace: Callable[[], Traced] = field(repr=False)
    scalars: tuple[RegionScalar, ...] = ()
    dims: tuple[int, ...] = ()

    @staticmethod
    def of(
        parameters: tuple[tirx.Var, ...],
        body: ir.Expr,
        source: str | None = None,
        scalars: tuple[RegionScalar, ...] = (),
        dims: tuple[int, ...] = (),
        numbers: tuple[ir.Expr, ...] = (),
    ) -> Region:
        """The region of an expression."""
        return Region(str(body), source, lambda: (parameters, body, numbers), scalars, dims)

    @cached_property
    def _traced(self) -> Traced:
        return self.trace()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as one graph, in which the parameters stay those of the expression."""
        variables = [*self.parameters, *_variables(self.scalars)]
        graph = ir.save_json(tvm_ffi.Array([*variables, self.body, *self.numbers]))
        scalars = tuple((one.name, one.dtype, len(one.variables)) for one in self.scalars)
        count = len(self.parameters)
        return _unpickled, (self.text, self.source, graph, scalars, self.dims, count)

    @property
    def parameters(self) -> tuple[tirx.Var, ...]:
        """The scalars that it takes."""
        return self._traced[0]

    @property
    def body(self) -> ir.Expr:
        """The expression that it yields."""
        return self._traced[1]

    @property
    def numbers(self) -> tuple[ir.Expr, ...]:
        """Of a region over words: the parts of the number that it yields, over variables of
        numbers, as :func:`.number_words.seen` names them.
        """
        return self._traced[2]

    @property
    def known_as(self) -> str | None:
        """The name in :data:`NAMED` of what this computes, its arguments in any order."""
        if len(self.parameters) != 2:
            return None
        first, second = self.parameters
        for name, text in NAMED.items():
            if name in ("and", "or", "xor") and "float" in str(first.ty.dtype):
                continue
            for a, b in ((first, second), (second, first)):
                known = scalar_text.evaluate(text, {"arg0": a, "arg1": b}, TIR_FUNCTIONS)
                if tvm_ffi.structural_equal(known, self.body):
                    return name
        return None

    def __call__(self, *arguments: ir.Expr) -> ir.Expr:
        """The yielded expression with ``arguments`` for the parameters."""
        by_name = {p.name: a for p, a in zip(self.parameters, arguments, strict=True)}
        given = (tirx.Var, lambda var: by_name.get(var.name, var))
        comparisons = ((tirx.LT, tirx.LE, tirx.GT, tirx.GE), bool_order.as_numbers)
        return tvm_ffi.structural_map(self.body, [given, comparisons])


def _unpickled(
    text: str,
    source: str | None,
    graph: str,
    scalars: Sequence[tuple[str, str, int]],
    dims: tuple[int, ...],
    count: int,
) -> Region:
    def read() -> list[Any]:
        return list(ir.load_json(graph))

    if not scalars:

        def traced() -> Traced:
            nodes = read()
            return tuple(nodes[:count]), nodes[count], tuple(nodes[count + 1 :])

        return Region(text, source, traced, dims=dims)
    nodes = read()
    rest = iter(nodes[count:])
    own = [RegionScalar(name, dtype, (*islice(rest, parts),)) for name, dtype, parts in scalars]
    body, *numbers = rest
    return Region.of(tuple(nodes[:count]), body, source, tuple(own), dims, tuple(numbers))


def _variables(scalars: Sequence[RegionScalar]) -> list[tirx.Var]:
    """What stands for a region's numbers of a call."""
    return [variable for one in scalars for variable in one.variables]


def trace(
    op: str,
    region: RegionLike,
    dtypes: Sequence[str],
    yields: str,
    *,
    takes_scalars: bool = False,
    loops: int = 0,
) -> Region:
    """Trace ``region`` over scalars of ``dtypes``; it must yield one scalar of ``yields``.

    What comes is over words, where a type is one of :data:`~.dtypes.WORDS`: they are decoded for
    the region, and what it yields is encoded.  ``takes_scalars`` are ops that have operands for a
    region's numbers of a call, and ``loops`` the iteration dims, the position along which a region
    may take.

    Raises:
        OpError: when it fails, or yields none, several, or another type.
    """
    if isinstance(region, ScalarRegion) and not takes_scalars:
        raise OpError(f"{op}: the region takes numbers of a call; expected operands for these")
    if isinstance(region, str):
        region = NAMED.get(region, region)
        if region in _plain_texts(tuple(dtypes), yields):
            text = region
            return Region(text, text, lambda: _trace_one(op, text, dtypes, yields)._traced)
    return _trace_one(op, region, dtypes, yields, loops)


def _trace_one(
    op: str, region: RegionLike, dtypes: Sequence[str], yields: str, loops: int = 0
) -> Region:
    """Trace a region that yields one value, by TVM."""
    words = [tirx.Var(f"arg{i}", word_dtype(dtype)) for i, dtype in enumerate(dtypes)]
    seen = [number_words.seen(one, dtype) for one, dtype in zip(words, dtypes, strict=True)]
    arguments = {one.name: number for one, number in zip(words, seen, strict=True)}
    scalars: tuple[RegionScalar, ...] = ()
    dims: tuple[int, ...] = ()
    if isinstance(region, ScalarRegion):
        scalars = tuple(RegionScalar.of(*one) for one in region.scalars.items())
        dims, region = region.dims, region.region
        region = NAMED.get(region, region) if isinstance(region, str) else region
    if isinstance(region, str):
        dims = _named_dims(region)
    for dim in dims:
        if not 0 <= dim < loops:
            raise OpError(f"{op}: region takes a position along d{dim}; {_positions(loops)}")
    places = [tirx.Var(f"d{dim}", "int64") for dim in dims]
    arguments |= {one.name: one for one in places}
    arguments |= {one.name: one.number for one in scalars}
    kinds = (*dtypes, *(one.dtype for one in scalars))
    body = _traced(op, region, arguments, _functions(kinds))
    if isinstance(body, tuple | list):
        raise OpError(f"{op}: region yields {len(body)} values; expected one")
    source = region if isinstance(region, str) else None
    parameters = (*words, *places)
    if WORDS.keys().isdisjoint((*dtypes, yields)):
        return _region(op, "region yields", parameters, body, yields, source, scalars, dims)
    for word, number, dtype in zip(words, seen, dtypes, strict=True):
        if number is body and dtype == yields:
            return Region.of(parameters, word, source, scalars, dims)
    held = number_words.held_dtype(yields)
    variables = [part for number in seen for part in number_words.parts_of(number)]
    parts = [
        _region(op, "region yields", (*variables, *places), part, held, None, scalars).body
        for part in number_words.parts_of(number_words.as_number(body, yields))
    ]
    made = number_words.over_words(parts, yields, dict(zip(words, dtypes, strict=True)))
    # The text says what arithmetic on words does not.
    whole = Region.of(parameters, made, source, scalars, dims, tuple(parts))
    return whole if source is None else replace(whole, text=source)


def _named_dims(text: str) -> tuple[int, ...]:
    """The iteration dims whose positions a text names, as ``d0`` and so on."""
    names = (re.fullmatch(r"d(\d{1,3})", name) for name in scalar_text.names(text))
    return tuple(sorted({int(name[1]) for name in names if name}))


def _positions(loops: int) -> str:
    return f"dims are d0 to d{loops - 1}" if loops else "its regions take none"


def _plain_texts(dtypes: tuple[str, ...], yields: str) -> tuple[str, ...]:
    """Texts of regions that are right for these types, and are also what TVM prints for them."""
    if len(dtypes) != 2 or dtypes[0] != dtypes[1] or dtypes[0] in ("bool", *COMPLEX):
        return ()
    if yields == "bool":
        return tuple(NAMED[name] for name in ("<", "<=", ">", ">="))
    return (NAMED["add"], NAMED["mul"]) if yields == dtypes[0] else ()


def trace_several(
    op: str, region: RegionsLike, dtypes: Sequence[str], yields: Sequence[str]
) -> tuple[Region, ...]:
    """Trace a region that yields a scalar of each type of ``yields``; see :func:`trace`.

    It is a callable that returns a tuple, a text with commas, or a text for each value; also one
    of these that takes numbers of a call.  What comes is one region for each, all with the same
    parameters and numbers.

    Raises:
        OpError: when it fails, or yields another number of values, or other types.
    """
    parameters = _parameters(dtypes)
    scalars: tuple[RegionScalar, ...] = ()
    if isinstance(region, ScalarRegion):
        if region.dims:
            raise OpError(f"{op}: region takes a position along d{region.dims[0]}; {_positions(0)}")
        scalars = tuple(RegionScalar.of(*one) for one in region.scalars.items())
        region = region.region
    arguments = {one.name: one for one in parameters} | {one.name: one.number for one in scalars}
    sources: list[str | None]
    bodies: list[Any]
    if isinstance(region, Sequence):
        texts = scalar_text.parts(region) if isinstance(region, str) else list(region)
        sources = list(texts)
        functions = _functions((*dtypes, *(one.dtype for one in scalars)))
        bodies = [_traced(op, text, arguments, functions) for text in texts]
    else:
        came = _traced(op, region, arguments)
        bodies = list(came) if isinstance(came, tuple | list) else [came]
        sources = [None] * len(bodies)
    if len(bodies) != len(yields):
        raise OpError(f"{op}: region yields {len(bodies)} values; expected {len(yields)}")
    return tuple(
        _region(op, f"region's yield {number} is", parameters, body, wanted, source, scalars)
        for number, (body, wanted, source) in enumerate(zip(bodies, yields, sources, strict=True))
    )


def _parameters(dtypes: Sequence[str]) -> tuple[tirx.Var, ...]:
    return tuple(tirx.Var(f"arg{i}", word_dtype(dtype)) for i, dtype in enumerate(dtypes))


def _traced(
    op: str,
    region: PlainRegion,
    arguments: Mapping[str, Any],
    functions: Mapping[str, Callable[..., Any]] = TIR_FUNCTIONS,
) -> Any:
    """Value that a region yields for its arguments; its own errors as an OpError."""
    if not isinstance(region, str) and not callable(region):
        raise OpError(f"{op}: region is {region!r}; expected a text or a callable")
    try:
        return _body(op, region, arguments, functions)
    except OpError:
        raise
    except Exception as error:  # the user's code, and TVM refuses in many kinds of error
        has_complex = any(isinstance(one, number_words.ComplexNumber) for one in arguments.values())
        reason = _reason(error)
        if has_complex and "ffi.OpaquePyObject" in reason:  # what TVM calls an object of ours
            reason = "a complex number stands for a real one; take real(...), imag(...) or abs(...)"
        raise OpError(f"{op}: region fails: {reason}") from error


def _region(
    op: str,
    what: str,
    parameters: tuple[tirx.Var, ...],
    body: Any,
    yields: str,
    source: str | None,
    scalars: tuple[RegionScalar, ...] = (),
    dims: tuple[int, ...] = (),
) -> Region:
    """The region of a yielded value, which is to be a scalar of ``yields``."""
    if isinstance(body, tvm_ffi.ObjectConvertible):  # TVM's == and != are not yet expressions
        body = body.asobject()
    if isinstance(body, int | float):
        body = tirx.const(body, yields)
    if not isinstance(body, ir.Expr):
        raise OpError(f"{op}: {what} {body!r}; expected a TIR expression of {yields}")
    check_size(op, body)
    came = str(body.ty.dtype)
    if came != yields:
        raise OpError(f"{op}: {what} {came}; expected {yields}")
    _check_pure(op, body, (*parameters, *_variables(scalars)))
    return Region.of(
        parameters, with_nan_comparisons(with_safe_divisions(body)), source, scalars, dims
    )


def _body(
    op: str,
    region: PlainRegion,
    arguments: Mapping[str, Any],
    functions: Mapping[str, Callable[..., Any]],
) -> Any:
    """Value that a region yields for its arguments."""
    if isinstance(region, str):
        numbers = [one for one in arguments.values() if isinstance(one, ir.Expr)]
        dtypes = {str(one.ty.dtype) for one in numbers}
        return scalar_text.evaluate(
            region, arguments, functions, lambda v: bare_number(v, dtypes), number_beside
        )
    try:
        inspect.signature(region).bind(*arguments.values())
    except TypeError as error:
        raise OpError(f"{op}: region takes {len(arguments)} arguments: {error}") from None
    except ValueError:
        pass  # a function of C tells no signature
    return region(*arguments.values())


def _check_pure(op: str, body: ir.Expr, parameters: Sequence[tirx.Var]) -> None:
    """Raise OpError unless what a region yields follows from its arguments, and from them alone."""

    nodes: list[ir.Expr] = []
    tvm_ffi.structural_walk(body, (ir.Expr, nodes.append))
    for node in nodes:
        if isinstance(node, ir.Call) and not is_pure(node):
            raise OpError(f"{op}: region calls {node.op.name}, which is not pure")
        if isinstance(node, ir.Call) and node.op.name.rpartition(".")[2] in OF_FLOATS:
            dtype = str(node.args[0].ty.dtype)
            if "float" not in dtype:  # of which compilers would say that there is no such code
                raise OpError(f"{op}: region calls {node.op.name} of {dtype}; expected a float")
        if isinstance(node, tirx.Var) and not any(node.same_as(one) for one in parameters):
            raise OpError(f"{op}: region uses {node.name}, which is none of its arguments")


def number_beside(value: Any, others: Sequence[Any]) -> Any:
    """A text's number of the type of the other operands, where they have one that holds it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    dtypes = {str(one.ty.dtype) for one in others if isinstance(one, ir.Expr)} - {"bool"}
    held = {one for one in dtypes if limits(one)[0] <= value <= limits(one)[1]}
    return bare_number(value, held if held == dtypes else ())


def bare_number(value: int | float, dtypes: Collection[str]) -> Any:
    """A text's number: of the parameters' type, where they have one that holds it."""
    suited = [one for one in dtypes if isinstance(value, int) or "float" in one]
    (dtype,) = suited if len(suited) == 1 else ("",)
    fits = "float" in dtype or ("int" in dtype and isinstance(value, int))
    return tirx.const(value, dtype) if fits and not isinstance(value, bool) else value


def _reason(error: Exception) -> str:
    """The error's message, without the condition in the source of TVM that found it."""
    first = str(error).strip().partition("\n")[0]
    return first.rpartition(" is false: ")[2] or type(error).__name__
