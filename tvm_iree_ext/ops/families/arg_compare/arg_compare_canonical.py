"""The canonical TensorIR of arg_compare, in both dialects: a loop over each line."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from tvm_iree_ext.ops.base.comparators import as_seen, as_stored, region_dtype
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.arg_compare.arg_compare import ArgCompare
from tvm_iree_ext.tir.tir_expressions import i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx

_PYTHON = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@emits_canonical
def canonical_arg_compare(op: ArgCompare, parameters: Parameters) -> None:
    """One block ``compare_line`` per line, which reads nothing that it writes."""
    one = tirx.const(1, "int64")
    length = i64(parameters.extent(op.type.shape[op.dimension]))
    extents = [i64(parameters.extent(extent)) for extent in op.line_shape]
    with I.sblock("root"), I.grid(*(extents or [one])) as loops, I.sblock("compare_line"):
        listed = list(loops) if isinstance(loops, Sequence) else [loops]
        at = [I.axis.spatial(e, v) for e, v in zip(extents or [one], listed, strict=True)]
        line = at if extents else []

        def place(along: ir.Expr) -> tuple[ir.Expr, ...]:
            return (*line[: op.dimension], along, *line[op.dimension :])

        # Held as integers where they are bools: TVM cannot compare those.
        held = region_dtype(op.type.dtype)
        value, element = (I.sblock_alloc_buffer((1,), held, scope="local") for _ in "ve")
        position = I.sblock_alloc_buffer((1,), "int64", scope="local")
        I.buffer_store(value, as_seen(parameters["init_value"][tuple(line)]), [0])
        I.buffer_store(position, tirx.const(-1, "int64"), [0])
        with I.serial(tirx.const(0, "int64"), length) as j:
            I.buffer_store(element, as_seen(parameters["input_value"][place(j)]), [0])
            if op.comparison is not None and not op.nan_first:
                wins = I.Bind(_PYTHON[op.comparison](element[0], value[0]))
            else:
                pair = [as_stored(one[0], op.compute_dtype) for one in (element, value)]
                wins = I.Bind(op.region(*pair))
            # Selections, not branches: of branches LLVM makes masked moves that lose indices.
            I.buffer_store(value, tirx.Select(wins, element[0], value[0]), [0])
            I.buffer_store(position, tirx.Select(wins, j, position[0]), [0])
        none = position[0] < 0
        if op.explicit:
            index = parameters["input_index"][place(tirx.max(position[0], tirx.const(0, "int64")))]
        else:
            base = parameters["index_base"] if op.index_base is None else None
            index = op.position_index(position[0], base)
        I.buffer_store(parameters["value"], as_stored(value[0], op.type.dtype), line)
        index = tirx.Select(none, parameters["init_index"][tuple(line)], index)
        I.buffer_store(parameters["index"], index, line)
