"""The stages of a Fourier transform, one after another, become one transform.

    before:  r = bit_reversed(x),  s1 = fft(r, stage 1),  ...,  y = fft(.., stage log2 n)
    after:   y = fft_transform(x)

IREE writes a transform so.  Each stage alone reads and writes all of the data; a whole transform
keeps lines in the caches and takes several stages at once.  One of real lines whose results are
cut to n / 2 + 1, and one of such halves and their mirror, take half the work.
"""

from collections import Counter
from dataclasses import dataclass
from math import isclose, sqrt
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.sym import Analyzer

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import eps
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.mlir.importing.places import joined
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.fft.fft import Fft
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform, Kind, Norm
from tvm_iree_ext.programs.base.op_functions import OpFunctions
from tvm_iree_ext.programs.base.relax_passes import (
    relax_functions,
    with_bindings,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import Callees
from tvm_iree_ext.programs.fusion.nest_reads import nest_of
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest, nests_of
from tvm_iree_ext.tir.tir_expressions import known


class WholeTransforms:
    """Rewrites the stages in a module; new ops are added to those known."""

    def __init__(
        self, mod: ir.IRModule, known_ops: dict[str, Op], parameters: dict[str, np.ndarray]
    ) -> None:
        self._mod, self._known, self.parameters = mod, known_ops, parameters
        self._builder = relax.BlockBuilder(mod)
        self.function_of_op = OpFunctions(known_ops, self._builder.add_func)
        self.callees = Callees(mod, known_ops)

    def run(self) -> ir.IRModule:
        """The module; the stages that nothing reads any more are still there."""
        if not any(isinstance(op, Fft) for op in self._known.values()):
            return self._mod
        changed = {
            var: _Function(self, function).run()
            for var, function in relax_functions(self._mod).items()
        }
        return with_functions(self._builder.get(), changed)


@dataclass(frozen=True)
class _Lines:
    """What a transform is of: real and imaginary parts, None for zeros, and their factor."""

    real: Any
    imag: Any | None
    factor: float


class _Function:
    """One function."""

    def __init__(self, within: WholeTransforms, function: relax.Function) -> None:
        self._within, self._function = within, function
        given = int((function.attrs or {}).get("num_input", len(function.params)))
        self._constants = {one: one.name for one in function.params[given:]}
        self._bound: dict[ir.Var, Any] = {}
        self._readers: dict[ir.Var, list[ir.Var]] = {}
        self._uses: Counter[ir.Var] = Counter()
        self._instead: dict[ir.Var, Any] = {}  # of what a binding computes

    def run(self) -> relax.Function:
        """The function."""
        if not isinstance(self._function.body, relax.SeqExpr):
            return self._function
        bindings = [one for block in self._function.body.blocks for one in block.bindings]
        for binding in bindings:
            self._bound[binding.var] = binding.value
            tvm_ffi.structural_walk(
                binding.value,
                (ir.Var, lambda var, by=binding.var: self._readers.setdefault(var, []).append(by)),
            )
        values = [*(binding.value for binding in bindings), self._function.body.body]
        for value in values:
            tvm_ffi.structural_walk(value, (ir.Var, lambda var: self._uses.update([var])))
        return with_bindings(self._function, self._rewritten)

    def _rewritten(self, binding: Any) -> list[Any]:
        instead = self._instead.get(binding.var)
        if instead is not None:
            return [relax.VarBinding(binding.var, instead)]
        op = self._within.callees.op_of(binding.value)
        if isinstance(op, Fft) and op.length == 1 << max(_stage(op), 0) and op.length > 1:
            return self._whole(binding, op)
        return [binding]

    def _whole(self, binding: relax.VarBinding, op: Fft) -> list[Any]:
        """The last stage, or the transform that all are."""
        found = self._lines(binding.value, op)
        if found is None:
            return [binding]
        lines, is_inverse = found
        norm = _norm(lines.factor, int(op.length), is_inverse)
        if norm is None:
            return [binding]
        parts = [self._part(binding.var, place) for place in (0, 1)]
        half = self._half_of(lines, parts, op) if is_inverse else None
        if half is not None:
            (ty, _) = binding.var.ty.fields
            var = relax.Var("real", ty)
            value = self._call(half, "complex_to_real", norm, [ty], binding.value, op)
            self._instead[parts[0]] = var
            return [relax.VarBinding(var, value), binding]
        kind: Kind = "inverse" if is_inverse else "forward"
        if lines.imag is None:
            cut = self._cut(parts, op) if not is_inverse else None
            if cut is None:
                return [binding]
            made = self._call([lines.real], "real_to_complex", norm, cut[0], binding.value, op)
            pair = relax.Var("halves", relax.TupleType(cut[0]))
            for place, readers in enumerate(cut[1]):
                for reader in readers:
                    self._instead[reader] = relax.TupleGetItem(pair, place)
            return [relax.VarBinding(pair, made), binding]
        sources = [lines.real, lines.imag]
        types = list(binding.var.ty.fields)
        made = self._call(sources, kind, norm, types, binding.value, op)
        return [relax.VarBinding(binding.var, made)]

    def _call(
        self, sources: list[Any], kind: Kind, norm: Norm, types: list[Any], of: ir.Call, op: Fft
    ) -> Any:
        *batch, _ = op.shape
        last = int(sources[0].ty.shape.values[-1])
        shape = TensorType((*batch, last), op.dtype)
        length = int(op.length) if kind == "complex_to_real" else None
        made: FftTransform = ops.fft_transform(shape, kind=kind, norm=norm, length=length)
        result = types if len(types) > 1 else types[0]
        return joined(relax.call_tir(self._within.function_of_op(made), sources, result), of)

    # The stages, last to first.

    def _lines(self, call: Any, op: Fft) -> tuple[_Lines, bool] | None:
        """What the stages up to one transform, and whether its exponents are those of an inverse.

        None where they are no transform.
        """
        directions: set[bool] = set()
        for stage in range(_stage(op), 0, -1):
            current = self._within.callees.op_of(call)
            if not isinstance(current, Fft) or current.stage != stage:
                return None
            if current.shape != op.shape or current.dtype != op.dtype:
                return None
            *coefficients, real, imag = call.args[1].fields
            if coefficients:
                direction = self._direction(coefficients, stage, op.dtype)
                if direction is None:
                    return None
                directions |= {direction} if stage > 1 else set()
            elif stage > 1:
                directions.add(False)
            source = self._pair(real, imag)
            if source is None:
                return None
            call = self._bound[source]
        if len(directions) > 1:
            return None
        lines = self._reversed(call, int(op.length))
        return None if lines is None else (lines, directions == {True})

    def _pair(self, real: Any, imag: Any) -> ir.Var | None:
        """The variable whose two parts, read here alone, two values are."""
        parts = [self._bound.get(one) for one in (real, imag)]
        if any(self._uses[one] != 1 for one in (real, imag)):
            return None
        for place, part in enumerate(parts):
            if not isinstance(part, relax.TupleGetItem) or part.index != place:
                return None
        source = parts[0].tuple_value  # type: ignore[union-attr]
        is_one = source == parts[1].tuple_value  # type: ignore[union-attr]
        return source if is_one and source in self._bound else None

    def _direction(self, coefficients: list[Any], stage: int, dtype: str) -> bool | None:
        """Whether twiddle factors are those of an inverse; None for others."""
        arrays = [self._array(one) for one in coefficients]
        if any(array is None for array in arrays):
            return None
        real, imag = (np.asarray(array, "float64").reshape(-1) for array in arrays)
        angles = np.pi * np.arange(1 << (stage - 1)) / (1 << (stage - 1))

        def is_near(array: np.ndarray, wanted: np.ndarray) -> bool:
            if array.shape != wanted.shape:
                return False
            return bool(np.all(np.abs(array - wanted) <= 4 * eps(dtype)))

        if is_near(real, np.cos(angles)):
            for is_inverse in (False, True):
                if is_near(imag, np.sin(angles) * (1 if is_inverse else -1)):
                    return is_inverse
        return None

    def _array(self, value: Any) -> Any:
        """A constant's value, or that of an array that loops fill; None for what is none."""
        if isinstance(value, ir.GenericConst):
            return value.value.numpy()
        if value in self._constants:
            return self._within.parameters[self._constants[value]]
        function = self._within.callees.function_of(self._bound.get(value))
        nest = nest_of(function) if function is not None else None
        if nest is None or not isinstance(nest.stores[0].value, tirx.FloatImm):
            return None
        shape = [known(extent) for extent in value.ty.shape.values]
        return None if None in shape else np.full(shape, nest.stores[0].value.value)

    def _reversed(self, call: Any, length: int) -> _Lines | None:
        """What loops put in the order of reversed bits; None for other loops."""
        nest, operands = self._loops(call)
        if nest is None or not nest.axes:
            return None
        found: list[tuple[Any, float] | None] = []
        for store in nest.stores:
            load, factor = _scaled(store.value)
            if load is None:
                found.append(None)
                if factor != 0.0:
                    return None
                continue
            *outer, last = load.indices
            *places, line = store.indices
            table = self._table(last, line, operands, length)
            if table is None or not tvm_ffi.structural_equal(outer, places):
                return None
            if not np.array_equal(table, _bits_reversed(length)):
                return None
            found.append((operands[load.source], factor))
        real, imag = found
        if real is None or (imag is not None and imag[1] != real[1]):
            return None
        return _Lines(real[0], None if imag is None else imag[0], real[1])

    def _table(self, index: Any, line: Any, operands: dict[ir.Var, Any], length: int) -> Any:
        """The constant whose element for a place of the line an index is, within bounds."""
        loads: list[ir.TensorLoad] = []
        tvm_ffi.structural_walk(index, (ir.TensorLoad, loads.append))
        if len(loads) != 1 or not tvm_ffi.structural_equal(list(loads[0].indices), [line]):
            return None
        analyzer, place = Analyzer(), tirx.Var("place", str(loads[0].ty.dtype))
        analyzer.bind(place, ir.Range(0, length))
        plain = tvm_ffi.structural_map(index, (ir.TensorLoad, lambda _: place))
        if not tvm_ffi.structural_equal(analyzer.simplify(plain), place):
            return None
        return self._array(operands[loads[0].source])

    def _loops(self, call: Any) -> tuple[LoopNest | None, dict[ir.Var, Any]]:
        """The nest of a call of loops with two results, and its operands by parameter."""
        function = self._within.callees.function_of(call)
        if function is None or OP_ATTRIBUTE in (function.attrs or {}):
            return None, {}
        form = nests_of(function)
        if form is None or len(form.nests) != 1 or form.buffers or form.nests[0].reduced:
            return None, {}
        (nest,) = form.nests
        results = function.params[-2:]
        if [store.buffer for store in nest.stores] != list(results) or nest.cells:
            return None, {}
        return nest, dict(zip(function.params, call.args[1].fields, strict=False))

    # Lines that are real on one side.

    def _part(self, pair: ir.Var, place: int) -> ir.Var | None:
        """The variable of a part of a pair, which nothing else reads."""
        readers = self._readers.get(pair, [])
        values = [self._bound[one] for one in readers]
        if self._uses[pair] != len(readers):
            return None
        found = [
            reader
            for reader, value in zip(readers, values, strict=True)
            if isinstance(value, relax.TupleGetItem) and value.index == place
        ]
        return found[0] if len(found) == 1 else None

    def _cut(
        self, parts: list[ir.Var | None], op: Fft
    ) -> tuple[list[Any], list[list[ir.Var]]] | None:
        """The types of both halves, and what reads them: slices alone; None for other readers."""
        types: list[Any] = []
        readers: list[list[ir.Var]] = []
        for part in parts:
            if part is None:
                return None
            slices = self._readers.get(part, [])
            if not slices or self._uses[part] != len(slices):
                return None
            if not all(self._is_first_half(one, op) for one in slices):
                return None
            types.append(slices[0].ty)
            readers.append(slices)
        return types, readers

    def _is_first_half(self, var: ir.Var, op: Fft) -> bool:
        """Whether a tensor is the elements of another up to n / 2, along the last axis."""
        function = self._within.callees.function_of(self._bound[var])
        nest = nest_of(function) if function is not None else None
        if nest is None or not isinstance(nest.stores[0].value, ir.TensorLoad):
            return False
        store, load = nest.stores[0], nest.stores[0].value
        *batch, length = store.buffer.ty.shape
        *whole, _ = load.source.ty.shape
        is_same = tvm_ffi.structural_equal(batch, whole)
        at = tvm_ffi.structural_equal(list(store.indices), list(load.indices))
        return is_same and at and known(length) == int(op.length) // 2 + 1

    def _half_of(self, lines: _Lines, parts: list[ir.Var | None], op: Fft) -> list[Any] | None:
        """The half whose mirror a line has behind it, where the result's real part is read alone.

        None for other lines.
        """
        if lines.imag is None or parts[0] is None:
            return None
        if parts[1] is not None and self._uses[parts[1]]:
            return None
        source = self._pair(lines.real, lines.imag)
        nest, operands = self._loops(self._bound[source]) if source is not None else (None, {})
        if nest is None:
            return None
        half, length = int(op.length) // 2 + 1, int(op.length)
        halves, mirrors = [], []
        for store in nest.stores:
            *_, line = store.indices
            first = _within(store.value, line, 0, half)
            second = _within(store.value, line, half, length)
            if not _reads(first, store, line) or not _reads(second, store, line - half):
                return None
            halves.append(operands[first.source])
            mirrors.append(operands[second.source])
        behind = self._pair(*mirrors)
        nest, operands = self._loops(self._bound[behind]) if behind is not None else (None, {})
        if nest is None:
            return None
        for store, part, factor in zip(nest.stores, halves, (1.0, -1.0), strict=True):
            *_, line = store.indices
            load, came = _scaled(store.value)
            is_mirror = load is not None and _reads(load, store, half - 2 - line)
            if load is None or not is_mirror or came != factor or operands[load.source] != part:
                return None
        return halves


def _stage(op: Fft) -> int:
    return op.stage if isinstance(op.stage, int) and isinstance(op.length, int) else -1


def _norm(factor: float, length: int, is_inverse: bool) -> Norm | None:
    """By what a transform is divided; None for a number of another kind."""
    divided: Norm = "backward" if is_inverse else "forward"
    whole: Norm = "forward" if is_inverse else "backward"
    for value, norm in ((1.0, whole), (1.0 / length, divided), (1.0 / sqrt(length), "ortho")):
        if isclose(factor, value, rel_tol=1e-6):
            return norm
    return None


def _bits_reversed(length: int) -> np.ndarray:
    """Numbers below a power of two, their bits in the other order."""
    reversed_ = np.zeros(1, "int64")
    while len(reversed_) < length:
        reversed_ = np.concatenate([2 * reversed_, 2 * reversed_ + 1])
    return reversed_


def _scaled(value: Any) -> tuple[ir.TensorLoad | None, float]:
    """A load and its factor; no load, and a number, for a constant or anything else."""
    if isinstance(value, ir.TensorLoad):
        return value, 1.0
    if isinstance(value, tirx.FloatImm):
        return None, float(value.value)
    if isinstance(value, tirx.Mul):
        for one, other in ((value.a, value.b), (value.b, value.a)):
            if isinstance(one, ir.TensorLoad) and isinstance(other, tirx.FloatImm):
                return one, float(other.value)
    return None, float("nan")


def _within(value: Any, line: ir.Var, first: int, stop: int) -> Any:
    """A value where a place of the line is within bounds."""
    analyzer = Analyzer()
    analyzer.bind(line, ir.Range(first, stop))

    def chosen(call: ir.Call) -> Any:
        condition = analyzer.simplify(call.args[0]) if len(call.args) == 3 else None
        decided = known(condition) if isinstance(condition, tirx.IntImm) else None
        return call if decided is None else call.args[1 if decided else 2]

    def load(node: ir.TensorLoad) -> Any:
        return tirx.BufferLoad(node.source, [analyzer.simplify(one) for one in node.indices])

    return tvm_ffi.structural_map(value, [(ir.Call, chosen), (ir.TensorLoad, load)])


def _reads(value: Any, store: Any, place: Any) -> bool:
    """Whether a value is read where it is stored, but at another place of the line."""
    if not isinstance(value, ir.TensorLoad):
        return False
    *outer, last = value.indices
    *batch, _ = store.indices
    return tvm_ffi.structural_equal(outer, batch) and Analyzer().can_prove_equal(last, place)
