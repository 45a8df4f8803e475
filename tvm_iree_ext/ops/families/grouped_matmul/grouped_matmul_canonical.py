"""The canonical TensorIR of a grouped product: blocks ``group``, ``sums``, ``result``."""

from __future__ import annotations

from tvm_iree_ext.ops.base.block_nests import At, block_over
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.grouped_matmul.grouped_matmul import GroupedMatmul
from tvm_iree_ext.tir.tir_expressions import convert, i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx


def _zero() -> ir.Expr:
    return tirx.const(0, "int64")


@emits_canonical
def canonical_grouped_matmul(op: GroupedMatmul, parameters: Parameters) -> None:
    """A row's group is how many groups end at it or before; a reduction; the epilogue."""
    full, (g, m, n, k) = op.full, range(4)
    extents = [i64(parameters.extent(extent)) for extent in full.extents]
    held = full.accumulator_dtype

    def element(name: str, at: At, dtype: str) -> ir.Expr:
        place = [at[axis[0]] if axis else _zero() for axis in full.maps[name].axes]
        return convert(parameters.buffers[name][tuple(place)], dtype)

    def factor(name: str, at: At) -> ir.Expr:
        made = full.factor_regions.get(name)
        if made is None:
            return element(name, at, held)
        (word,) = made.parameters
        return convert(made(element(name, at, str(word.ty.dtype))), held)

    with I.sblock("root"):
        group = I.sblock_alloc_buffer([extents[m]], "int64")
        sums = I.sblock_alloc_buffer([extents[m], extents[n]], held)

        def none(at: At) -> None:
            I.buffer_store(group, _zero(), [at[m]])

        def count(at: At) -> None:
            ended = convert(parameters.buffers["offsets"][at[g]], "int64") <= at[m]
            I.buffer_store(group, group[at[m]] + tirx.Cast("int64", ended), [at[m]])

        block_over(extents, "group", (m,), (g,), count, none)

        def own(at: At) -> At:
            """With the row's group; of a row that has none, any."""
            return {**at, g: tirx.min(group[at[m]], extents[g] - 1)}

        def start(at: At) -> None:
            I.buffer_store(sums, tirx.const(0, held), [at[m], at[n]])

        def step(at: At) -> None:
            product = factor("lhs", at) * factor("rhs", own(at))
            I.buffer_store(sums, sums[at[m], at[n]] + product, [at[m], at[n]])

        block_over(extents, "sums", (m, n), (k,), step, start)

        def finish(at: At) -> None:
            value = sums[at[m], at[n]]
            if full.epilogue is not None:
                seen = [str(one.ty.dtype) for one in full.epilogue.parameters[1:]]
                rest = [element(o, own(at), d) for o, d in zip(full.others, seen, strict=True)]
                value = full.epilogue(value, *rest)
            target = parameters.buffers["result"]
            value = convert(value, str(target.dtype))
            there = group[at[m]] < extents[g]
            zero = tirx.const(0, str(target.dtype))
            I.buffer_store(target, tirx.Select(there, value, zero), [at[m], at[n]])

        block_over(extents, "result", (m, n), (), finish)
