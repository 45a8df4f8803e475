"""The canonical PrimFunc of exp_reduction: one block for each line of its formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from tvm_iree_ext.ops.base.block_nests import At, block_over
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.base.regions import maximum
from tvm_iree_ext.ops.families.exp_reduction.exp_reduction import ExpReduction
from tvm_iree_ext.tir.tir_expressions import convert, i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx

Value: TypeAlias = "Callable[[At], ir.Expr]"


@emits_canonical
def canonical_exp_reduction(op: ExpReduction, parameters: Parameters) -> None:
    """Blocks ``maximum``, ``weights``, ``norm``, then ``output1`` and so on, and the results."""
    _ExpReductionFunction(op, parameters).emit()


class _ExpReductionFunction:
    """The PrimFunc of an exp_reduction under construction."""

    def __init__(self, op: ExpReduction, parameters: Parameters) -> None:
        self.op = op
        self.parameters = parameters
        self.extents = [i64(self.parameters.extent(extent)) for extent in op.extents]
        self.block = partial(block_over, self.extents)

    def element(self, name: str, operand: str, dtype: str) -> Value:
        """An operand's element, in a type."""
        buffer, dims = self.parameters.buffers[operand], self.op.maps[name].dims
        return lambda at: convert(buffer[tuple(at[dim] for dim in dims)], dtype)

    def reduce(
        self,
        name: str,
        dims: Sequence[int],
        reduced: Sequence[int],
        start: Value,
        step: Callable[[At, ir.Expr], ir.Expr],
        dtype: str,
    ) -> Value:
        """Blocks that take ``start`` through ``step`` at each reduced point."""
        shape = [self.extents[dim] for dim in dims] or [tirx.const(1, "int64")]
        buffer = I.sblock_alloc_buffer(shape, dtype)

        def place(at: At) -> list[Any]:
            return [at[dim] for dim in dims] or [tirx.const(0, "int64")]

        if not reduced:
            self.block(
                name, dims, (), lambda at: I.buffer_store(buffer, step(at, start(at)), place(at))
            )
        else:
            self.block(
                name,
                dims,
                reduced,
                lambda at: I.buffer_store(buffer, step(at, buffer[tuple(place(at))]), place(at)),
                lambda at: I.buffer_store(buffer, start(at), place(at)),
            )
        return lambda at: buffer[tuple(place(at))]

    def emit(self) -> None:
        """The whole function."""
        op, dtype = self.op, self.op.compute_dtype
        rows, keys = op.row_dims, op.key_dims
        power = tirx.exp2 if op.score_domain == "log2" else tirx.exp
        with I.sblock("root"):
            scores = self.element("input0", "input0", dtype)
            given = self.element("output0", "init0", dtype)
            newest = self.reduce(
                "maximum", rows, keys, given, lambda at, m: maximum(m, scores(at)), dtype
            )
            weights = self.reduce(
                "weights",
                (*rows, *keys),
                (),
                scores,
                lambda at, score: power(score - newest(at)),
                dtype,
            )
            norm = self.reduce(
                "norm", rows, (), given, lambda at, old: power(old - newest(at)), dtype
            )
            inputs = [weights] + [
                self.element(f"input{i}", f"input{i}", str(op.regions[0].parameters[i].ty.dtype))
                for i in range(1, len(op.inputs))
            ]
            self.result(0, newest)
            for j in op.accumulators():
                self.result(j, self.accumulator(j, inputs, norm))

    def accumulator(self, j: int, inputs: Sequence[Value], norm: Value) -> Value:
        """The final value of an output."""
        op = self.op
        region, count = op.regions[j], len(op.inputs)
        dtype = str(region.body.ty.dtype)
        carried = self.element(f"output{j}", f"init{j}", dtype)
        reads = op.reads(j)

        def start(at: At) -> ir.Expr:
            return carried(at) * norm(at) if j in op.exp_reduced_operands else carried(at)

        def step(at: At, value: ir.Expr) -> ir.Expr:
            arguments = list(region.parameters)
            for i in reads:
                arguments[i] = inputs[i](at)
            arguments[count + j] = value
            return region(*arguments)

        dims = tuple(sorted(op.maps[f"output{j}"].dims))
        return self.reduce(f"output{j}", dims, op.reduced(j), start, step, dtype)

    def result(self, j: int, value: Value) -> None:
        """A block that stores an output, in its type."""
        buffer, dims = self.parameters.buffers[f"result{j}"], self.op.maps[f"output{j}"].dims

        def store(at: At) -> None:
            place = [at[dim] for dim in dims]
            I.buffer_store(buffer, convert(value(at), str(buffer.dtype)), place)

        self.block(f"result{j}", tuple(sorted(dims)), (), store)
