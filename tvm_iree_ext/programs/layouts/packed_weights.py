"""Constant factors of contractions and convolutions, laid out at build as kernels read them.

    before:  result[m, n]    = sum over k of a[m, k] * weight[k, n]
    after:   result[m, o, w] = sum over k of a[m, k] * packed[o, k, w]       n = o * width + w

A panel of ``width`` columns is then a run of memory, which no call has to copy together.  The
result is a view of the same memory.  A filter (H, W, C, F) is such a matrix, too: its rows are the
places of a window.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, relax
from tvm.target import Target

from tvm_iree_ext import ops
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.mlir.importing.places import joined
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.programs.base.op_functions import OpFunctions
from tvm_iree_ext.programs.base.relax_passes import (
    constant_of,
    relax_functions,
    with_constants,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import Callees, is_tir_call
from tvm_iree_ext.schedules.dispatch import constant_panels


class _Packing(ABC):
    """An op with a constant factor, and the op that reads it packed."""

    factor: str

    @abstractmethod
    def packed(self, weight: np.ndarray) -> np.ndarray:
        """The factor, packed: a view, which is copied together when it is written."""

    @abstractmethod
    def made(self) -> Op:
        """The op of the packed factor."""

    @abstractmethod
    def view(self, name: str, kind: relax.TensorType) -> list[Any]:
        """The shape by which that takes another operand, or gives the result: a view of it."""


@dataclass(frozen=True)
class _Filter(_Packing):
    """A convolution with channels last."""

    op: Conv2d
    width: int
    factor = "filter"

    def packed(self, weight: np.ndarray) -> np.ndarray:
        """The filter, packed."""
        rows, columns, channels, filters = weight.shape
        split = weight.reshape(rows, columns, channels, filters // self.width, self.width)
        return np.moveaxis(split, 3, 0)

    def made(self) -> Op:
        """The convolution of the packed filter."""
        return replace(self.op, filter_panels=self.width)

    def view(self, name: str, kind: relax.TensorType) -> list[Any]:
        """The shape, as it is."""
        return list(kind.shape.values)


@dataclass(frozen=True)
class _Columns(_Packing):
    """A contraction whose dim ``n`` is two dims: panels, and the columns of one."""

    op: Contraction
    factor: str
    n: int
    width: int

    @property
    def _columns(self) -> int:
        return len(self.op.extents)

    def _split(self, axes: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        """Axes with two for the one along ``n``."""
        split: list[tuple[int, ...]] = []
        for axis in axes:
            split += [(self.n,), (self._columns,)] if tuple(axis) == (self.n,) else [tuple(axis)]
        return tuple(split)

    def shape(self, name: str) -> tuple[Extent, ...]:
        """The shape of an operand, as a view of what it was."""
        split: list[Extent] = []
        for axis, extent in zip(self.op.maps[name].axes, self.op.types[name].shape, strict=True):
            if axis == (self.n,) and isinstance(extent, int):
                split += [extent // self.width, self.width]
            else:
                split.append(extent)
        return tuple(split)

    @property
    def _order(self) -> tuple[int, ...]:
        """The axes of the factor's view, as they are packed: columns last, depth before them."""
        axes = self._split(self.op.maps[self.factor].axes)
        result = self.op.maps["result"].dims

        def place(axis: int) -> int:
            (dim,) = axes[axis] or (-1,)
            return 2 if dim == self._columns else int(dim not in result)

        return tuple(sorted(range(len(axes)), key=place))

    def packed(self, weight: np.ndarray) -> np.ndarray:
        """The factor, packed."""
        return weight.reshape(self.shape(self.factor)).transpose(self._order)

    def made(self) -> Op:
        """The contraction of the packed factor."""
        op = self.op
        types = {name: TensorType(self.shape(name), kind.dtype) for name, kind in op.types.items()}
        axes = {name: self._split(one.axes) for name, one in op.maps.items()}
        shape = types[self.factor].shape
        ordered = tuple(shape[axis] for axis in self._order)
        types[self.factor] = TensorType(ordered, types[self.factor].dtype)
        axes[self.factor] = tuple(axes[self.factor][axis] for axis in self._order)
        maps = {name: IndexingMap(self._columns + 1, one) for name, one in axes.items()}
        return ops.contraction(
            types["lhs"],
            types["rhs"],
            [types[name] for name in op.others],
            indexing_maps=[maps[name] for name in ("lhs", "rhs", *op.others, "result")],
            init=types.get("init"),
            epilogue=op.epilogue,
            result_dtype=types["result"].dtype,
        )

    def view(self, name: str, kind: relax.TensorType) -> list[Any]:
        """The shape by which that takes another operand, or gives the result: a view of it."""
        split: list[Any] = []
        for axis, extent in zip(self.op.maps[name].axes, kind.shape.values, strict=True):
            is_split = axis == (self.n,)
            split += [extent // self.width, self.width] if is_split else [extent]
        return split


@relax.expr_functor.mutator
class PackWeights(relax.PyExprMutator):
    """Rewrites the contractions and convolutions of a module in which nothing is unused."""

    def __init__(
        self,
        mod: ir.IRModule,
        known: dict[str, Op],
        parameters: dict[str, np.ndarray],
        target: Target,
    ) -> None:
        """Take a module, whose ops and constants by name are added to."""
        super().__init__(mod)
        self._mod, self._parameters, self._target = mod, parameters, target
        self._callees = Callees(mod, known)
        self._function = OpFunctions(known, self.builder_.add_func)
        self._constants: Mapping[ir.Var, str] = {}
        self._uses: Counter[ir.Var] = Counter()
        self._calls: Counter[tuple[ir.Var, str, int]] = Counter()  # by function and operand
        self._added: dict[str, ir.Var] = {}
        self._names: dict[tuple[Any, ...], str] = {}  # of packed constants

    def run(self) -> ir.IRModule:
        """The module."""
        rewritten = {}
        for var, function in relax_functions(self._mod).items():
            given = int((function.attrs or {}).get("num_input", len(function.params)))
            self._constants = {one: one.name for one in function.params[given:]}
            self._uses, self._calls, self._added = Counter(), Counter(), {}
            tvm_ffi.structural_walk(function.body, [(ir.Var, self._count), (ir.Call, self._note)])
            changed = self.visit_expr(function)
            added = list(self._added.values())
            rewritten[var] = with_constants(changed, given, added)
        return with_functions(self.builder_.get(), rewritten)

    def _count(self, var: ir.Var) -> None:
        self._uses[var] += 1

    def _note(self, call: ir.Call) -> None:
        if is_tir_call(call):
            for place, value in enumerate(call.args[1].fields):
                if isinstance(value, ir.Var):
                    self._calls[value, call.args[0].name_hint, place] += 1

    def visit_call_(self, call: ir.Call) -> ir.Expr:
        """A call of one with a constant factor; any other as it is."""
        call = super().visit_call_(call)
        op = self._callees.op_of(call)
        if not isinstance(op, Contraction | Conv2d):
            return call
        names = [operand.name for operand in op.signature.arguments]
        arguments = dict(zip(names, call.args[1].fields, strict=True))
        for factor in ("lhs", "rhs") if isinstance(op, Contraction) else ("filter",):
            if self._is_constant(arguments[factor], call.args[0], names.index(factor)):
                packing = _packing(op, factor, self._target)
                if packing is not None:
                    return self._with_packed(packing, arguments, call)
        return call

    def _is_constant(self, value: Any, function: ir.GlobalVar, place: int) -> bool:
        """Whether a factor is a constant that is read so alone: else it would be there twice."""
        if isinstance(value, ir.Var):
            alike = self._calls[value, function.name_hint, place]
            return value in self._constants and self._uses[value] == alike
        return isinstance(value, ir.GenericConst)

    def _with_packed(
        self, packing: _Packing, arguments: Mapping[str, Any], given: ir.Call
    ) -> ir.Expr:
        kind = given.ty_args[0]
        made = packing.made()
        values = [
            self._constant(packing, value)
            if name == packing.factor
            else self._shaped(value, packing.view(name, value.ty))
            for name, value in arguments.items()
        ]
        result = relax.TensorType(packing.view("result", kind), kind.dtype)
        call = joined(relax.call_tir(self._function(made), values, result), given)
        return self._shaped(self.builder_.emit(call), kind.shape.values)

    def _shaped(self, value: Any, shape: Sequence[Any]) -> Any:
        """A tensor as a view of another rank."""
        if len(value.ty.shape.values) == len(shape):
            return value
        return self.builder_.emit(relax.op.reshape(value, relax.ShapeExpr(shape)))

    def _constant(self, packing: _Packing, value: Any) -> Any:
        """The packed factor."""
        if isinstance(value, ir.GenericConst):
            return constant_of(packing.packed(value.value.numpy()))
        array = packing.packed(self._parameters[value.name])
        key = value.name, array.shape, array.strides
        if key not in self._names:
            # Another function may have packed it otherwise.
            name = f"{value.name}.panels"
            names = chain([name], (f"{name}.{number}" for number in count(2)))
            self._names[key] = next(one for one in names if one not in self._parameters)
            self._parameters[self._names[key]] = array
        name = self._names[key]
        ty = relax.TensorType(self._parameters[name].shape, value.ty.dtype)
        return self._added.setdefault(name, relax.Var(name, ty))


def _packing(op: Contraction | Conv2d, factor: str, target: Target) -> _Packing | None:
    """How a constant factor is packed; None where it is read as it is."""
    width = constant_panels(op, factor, target)
    if width is None:
        return None
    if isinstance(op, Conv2d):
        return _Filter(op, width)
    (n,) = op.maps["result"].axes[-1]
    return _Columns(op, factor, n, width)
