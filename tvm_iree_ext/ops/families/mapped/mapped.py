"""``iree_linalg_ext.map_load`` and ``map_store``: elements moved by a function of their index.

    map_load:   (c, padding) = region(x);  output[x] = source[c] if c lies in source, else padding
    map_store:  (c, mask) = region(x);     output[c] = input[x] if mask holds and c lies in output

x goes over all of output in ``map_load``, and over all of input in ``map_store``, whose region must
not send two elements to one place; an output element that none is sent to keeps the init's value.
Older IREE calls the ops ``map_gather`` and ``map_scatter``.

Differences to the dialect, each with its reason: the init of ``map_store`` is an operand of its
own, as for every op, and that of ``map_load``, whose value never shows, is none; a place outside
of ``map_store``'s output, undefined there, is left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm_iree_ext.base import dtypes, scalar_text
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Operand, Signature, TensorType
from tvm_iree_ext.ops.base.compute_dtypes import computed_dtype
from tvm_iree_ext.ops.base.op import UncountedOp, operand_bytes
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, named_extents
from tvm_iree_ext.ops.base.padding import check_padding, padding_number
from tvm_iree_ext.ops.base.region_scalars import RegionScalar, ScalarRegion
from tvm_iree_ext.ops.base.regions import TIR_FUNCTIONS, PlainRegion
from tvm_iree_ext.tir import number_words
from tvm_iree_ext.tir.region_size import check_size
from tvm_iree_ext.tir.safe_divisions import with_safe_divisions
from tvm_iree_ext.tir.tir_expressions import convert
from tvm_iree_ext.tir.tvm_modules import ir, tirx, tvm_ffi

IndexRegionLike = PlainRegion | ScalarRegion


@dataclass(frozen=True, eq=False)
class IndexRegion:
    """A traced function of an index: yields a place, and one value more.

    ``source`` is the text that it was traced from, where it was one; ``scalars`` are the numbers
    that it takes of a call.
    """

    parameters: tuple[tirx.Var, ...]
    symbols: tuple[tirx.Var, ...]
    place: tuple[ir.Expr, ...]
    value: ir.Expr
    source: str | None
    scalars: tuple[RegionScalar, ...] = ()

    @property
    def text(self) -> str:
        """Text of the yielded values."""
        return ", ".join(map(str, (*self.place, self.value)))

    def __call__(
        self, index: Sequence[ir.Expr], symbols: Mapping[str, ir.Expr]
    ) -> tuple[list[ir.Expr], ir.Expr]:
        """Place and value at an index, with ``symbols`` for the extents that it names.

        Numbers of a call stay variables, which are bound in the finished function.
        """
        by_name = dict(symbols) | {
            parameter.name: at for parameter, at in zip(self.parameters, index, strict=True)
        }

        def at_index(body: ir.Expr) -> ir.Expr:
            return tvm_ffi.structural_map(body, (tirx.Var, lambda var: by_name.get(var.name, var)))

        return [at_index(one) for one in self.place], at_index(self.value)


@dataclass(frozen=True, eq=False)
class Mapped(UncountedOp):
    """A map_load or map_store; made by the functions of these names, which check it.

    ``domain`` is the tensor over whose indices the op goes, ``other`` the one at whose places it
    reads or writes.
    """

    name: str
    domain: TensorType
    other: TensorType
    region: IndexRegion

    @property
    def loads(self) -> bool:
        """Whether this is ``map_load``."""
        return self.name.endswith("map_load")

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.domain.dtype

    @cached_property
    def signature(self) -> Signature:
        """``source, [scalars], output``, or ``input, [scalars], output_init, output``."""
        scalars = tuple(one.operand for one in self.region_scalars)
        if self.loads:
            source = Operand("source", self.other.shape, self.dtype)
            shape, over = self.domain.shape, self.other.shape
            result = Operand("output", shape, self.dtype, "result", over=over)
            return Signature((source, *scalars, result))
        shape, over = self.other.shape, self.domain.shape
        return Signature(
            (
                Operand("input", over, self.dtype),
                *scalars,
                Operand("output_init", shape, self.dtype),
                Operand("output", shape, self.dtype, "result", init="output_init", over=over),
            )
        )

    @property
    def region_scalars(self) -> tuple[RegionScalar, ...]:
        """The numbers that the region takes of a call."""
        return self.region.scalars

    @property
    def attributes(self) -> dict[str, Any]:
        """The region, over arg0, arg1, ..."""
        return {"region": self.region.text}

    def bytes(self, extents: Mapping[str, int] | None = None) -> int:
        """Each element of the domain read and written; for a store also the copy of the init."""
        operands = {operand.name: operand for operand in self.signature.operands}
        if self.loads:
            return 2 * operand_bytes(operands["output"], extents)
        moved = operand_bytes(operands["input"], extents)
        return 2 * moved + 2 * operand_bytes(operands["output"], extents)


def map_load(
    source: OperandLike,
    output: OperandLike,
    region: IndexRegionLike,
    *,
    dtype: str = "float32",
) -> Mapped:
    """``output[x] = source[c]`` for ``c, padding = region(x)``, or the padding outside of source.

    Args:
        source: what is read; a shape (of ``dtype``), :class:`TensorType`, or anything with
            ``shape`` and ``dtype``.
        output: shape of the result; where it has a type, source's.
        region: takes an index per axis of output, and yields one per axis of source and the
            padding; a callable over TIR expressions, ``lambda i, j: (j, i, 0.0)``, or text,
            ``"arg1, arg0, 0.0"``.  It may use extents that have names by them: a text as it
            stands, a callable by parameters of these names.  So it takes numbers of a call
            (:func:`.region`), which are operands behind the source.
        dtype: element type of operands given as bare shapes.

    Raises:
        OpError: for a dtype or extent that does not fit, or what the region yields.
    """
    name = "iree_linalg_ext.map_load"
    every = dtypes.ELEMENTS
    other = named_extents(as_tensor(name, "source", source, dtype, every, least=0), "source")
    domain = as_tensor(name, "output", output, other.dtype, every, least=0)
    for axis, extent in enumerate(domain.shape):
        if isinstance(extent, str) and extent not in other.shape:
            raise OpError(
                f"{name}: output axis {axis} has extent {extent}; expected a number,"
                " or a name of an extent of source"
            )
    _check_dtypes(name, "source", other, domain)
    return Mapped(name, domain, other, _trace(name, region, domain, other, ("source", "padding")))


def map_store(
    input: OperandLike,
    output: OperandLike,
    region: IndexRegionLike,
    *,
    dtype: str = "float32",
) -> Mapped:
    """``output[c] = input[x]`` for ``c, mask = region(x)``, where the mask holds.

    The kernel takes ``input`` and ``output_init``.  Arguments as in :func:`map_load`; the region
    takes an index per axis of input, and yields one per axis of output and a bool.

    Raises:
        OpError: for a dtype or extent that does not fit, a scalar input, or what the region yields.
    """
    name = "iree_linalg_ext.map_store"
    every = dtypes.ELEMENTS
    domain = as_tensor(name, "input", input, dtype, every, least=0)
    if not domain.shape:
        raise OpError(f"{name}: input is a scalar; expected rank 1 or more")
    other = as_tensor(name, "output", output, domain.dtype, every, least=0)
    domain = named_extents(domain, "input", other.shape)
    other = named_extents(other, "output", domain.shape)
    _check_dtypes(name, "input", domain, other)
    return Mapped(name, domain, other, _trace(name, region, domain, other, ("output", "mask")))


def _check_dtypes(op: str, name: str, given: TensorType, output: TensorType) -> None:
    if given.dtype != output.dtype:
        raise OpError(
            f"{op}: output has dtype {output.dtype}; expected {given.dtype} as {name} has"
        )


def _trace(
    op: str,
    region: IndexRegionLike,
    domain: TensorType,
    other: TensorType,
    names: tuple[str, str],
) -> IndexRegion:
    """Trace a region over indices of ``domain``; ``names`` are of ``other`` and of the value."""
    parameters = tuple(tirx.Var(f"arg{i}", "int64") for i in range(len(domain.shape)))
    extents = dict.fromkeys(e for e in domain.shape + other.shape if isinstance(e, str))
    symbols = {extent: tirx.Var(extent, "int64") for extent in extents}
    scalars: tuple[RegionScalar, ...] = ()
    if isinstance(region, ScalarRegion):
        if region.dims:
            raise OpError(f"{op}: region takes positions as its arguments; expected no dims")
        scalars = tuple(RegionScalar.of(*one) for one in region.scalars.items())
        region = region.region
    if isinstance(region, str):
        known = symbols | {one.name: one for one in parameters}
        known |= {one.name: one.number for one in scalars}
        yielded = scalar_text.evaluate(region, known, TIR_FUNCTIONS)
    else:
        try:
            wanted = inspect.signature(region).parameters
            used = {name: var for name, var in symbols.items() if name in wanted}
            yielded = region(*parameters, *(one.number for one in scalars), **used)
        except TypeError as error:
            raise OpError(f"{op}: region takes {len(parameters)} indices: {error}") from error
    values = list(yielded) if isinstance(yielded, tuple | list) else [yielded]
    if len(values) != len(other.shape) + 1:
        raise OpError(
            f"{op}: region yields {len(values)} values; expected {len(other.shape) + 1}:"
            f" an index for each axis of {names[0]}, and the {names[1]}"
        )
    *place, value = values
    indices = [_typed(op, f"index {i}", one, "int64") for i, one in enumerate(place)]
    value_type = domain.dtype if names[1] == "padding" else "bool"
    return IndexRegion(
        parameters=parameters,
        symbols=tuple(symbols.values()),
        place=tuple(indices),
        value=_typed(op, names[1], value, value_type),
        source=region if isinstance(region, str) else None,
        scalars=scalars,
    )


def _typed(op: str, what: str, value: Any, dtype: str) -> ir.Expr:
    """A yielded value as an expression of its type; a number becomes one where it fits."""
    if hasattr(value, "asobject"):  # what TVM's == and != give
        value = value.asobject()
    if dtype in dtypes.WORDS:
        return _word(op, what, value, dtype)
    if isinstance(value, bool | int | float):
        fits = (
            isinstance(value, bool)
            if dtype == "bool"
            else not isinstance(value, bool) and (dtype in dtypes.FLOATS or isinstance(value, int))
        )
        if fits:
            return tirx.const(value, dtype)
    elif isinstance(value, ir.Expr):
        check_size(op, value)
        if str(value.ty.dtype) in (dtype, computed_dtype(dtype)):
            return convert(with_safe_divisions(value), dtype)
        value = str(value.ty.dtype)
    raise OpError(f"{op}: region yields {value!r} for the {what}; expected {dtype}")


def _word(op: str, what: str, value: Any, dtype: str) -> ir.Expr:
    """A yielded value as the word of a type that TVM does not know."""
    held = number_words.held_dtype(dtype)
    if isinstance(value, ir.Expr):
        value = number_words.as_number(value, dtype)
    if isinstance(value, number_words.ComplexNumber):
        came = str(value.real.ty.dtype) if dtype in dtypes.COMPLEX else "complex"
    elif isinstance(value, ir.Expr):
        check_size(op, value)
        came = str(value.ty.dtype)
    else:
        word = number_words.word_of(check_padding(op, what, value, dtype), dtype)
        return padding_number(word, dtypes.word_dtype(dtype))
    if came != held:
        raise OpError(f"{op}: region yields {value!r} for the {what}; expected {held} for {dtype}")
    encoded: ir.Expr = number_words.encoded(value, dtype)
    return encoded
