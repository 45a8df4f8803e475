"""All operations, and what a web's arrays are."""

from tvm_iree_ext.random_programs.drawing import (
    elementwise,
    layers,
    loops,
    moves,
    places,
    reductions,
)
from tvm_iree_ext.random_programs.drawing.table import TABLE, apply
from tvm_iree_ext.random_programs.drawing.values import BoundedArray, exactly
from tvm_iree_ext.random_programs.drawing.web import Web

for _family in (moves, elementwise, reductions, places, loops, layers):
    TABLE.update({op.name: op for op in _family.OPS})


def meaning(web: Web) -> list[BoundedArray]:
    """Every array of a web, by number.

    Raises:
        Unsuited: where it asks what is not asked of a program.
    """
    values = [exactly(one.array(), one.type.dtype) for one in web.inputs]
    for node in web.nodes:
        values.append(apply(node.op, [values[one] for one in node.operands], node.attributes))
    return values
