"""The canonical TensorIR of a contraction: blocks ``sums``, ``result``."""

from __future__ import annotations

from tvm_iree_ext.ops.base.block_nests import At, block_over
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.tir.tir_expressions import convert, i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx


def _zero() -> ir.Expr:
    return tirx.const(0, "int64")


@emits_canonical
def canonical_contraction(op: Contraction, parameters: Parameters) -> None:
    """A reduction, and the epilogue of what it gives."""
    extents = [i64(parameters.extent(extent)) for extent in op.extents]
    dims, reduced = op.maps["result"].dims, op.dims("lhs", "rhs")
    held = op.accumulator_dtype

    def element(name: str, at: At, dtype: str) -> ir.Expr:
        place = [at[axis[0]] if axis else _zero() for axis in op.maps[name].axes]
        return convert(parameters.buffers[name][tuple(place)], dtype)

    def factor(name: str, at: At) -> ir.Expr:
        made = op.factor_regions.get(name)
        if made is None:
            return element(name, at, held)
        taken = (name, *op.beside(name))
        kinds = [str(one.ty.dtype) for one in made.parameters]
        elements = [element(one, at, kind) for one, kind in zip(taken, kinds, strict=True)]
        return convert(made(*elements), held)

    def product(at: At) -> ir.Expr:
        return factor("lhs", at) * factor("rhs", at)

    def place(at: At) -> list[ir.Expr]:
        return [at[dim] for dim in dims] or [_zero()]

    with I.sblock("root"):
        sums = I.sblock_alloc_buffer([extents[d] for d in dims] or [i64(1)], held)

        def start(at: At) -> None:
            first = element("init", at, held) if op.has_init else tirx.const(0, held)
            I.buffer_store(sums, first, place(at))

        def step(at: At) -> None:
            I.buffer_store(sums, sums[tuple(place(at))] + product(at), place(at))

        if not reduced:

            def single(at: At) -> None:
                value = product(at)
                value = element("init", at, held) + value if op.has_init else value
                I.buffer_store(sums, value, place(at))

            block_over(extents, "sums", dims, (), single)
        else:
            block_over(extents, "sums", dims, reduced, step, start)

        def finish(at: At) -> None:
            value = sums[tuple(place(at))]
            if op.epilogue is not None:
                seen = [str(one.ty.dtype) for one in op.epilogue.parameters[1:]]
                rest = [element(n, at, d) for n, d in zip(op.others, seen, strict=True)]
                value = op.epilogue(value, *rest)
            target = parameters.buffers["result"]
            I.buffer_store(target, convert(value, str(target.dtype)), [at[dim] for dim in dims])

        block_over(extents, "result", dims, (), finish)
