"""Results with which nothing is combined: what they begin as."""

import numpy as np

from tvm_iree_ext.catalog.base.entry import Values
from tvm_iree_ext.ops.base.op import Op


def inits_of_nothing(op: Op, operands: Values) -> dict[str, np.ndarray] | None:
    """The inits of results, where an extent that all are reduced over is 0; else None.

    A result without elements is empty, of any type.
    """
    shapes = [
        None if one.role == "scalar" else np.shape(operands[one.name])
        for one in op.signature.arguments
    ]
    signature = op.signature
    bound = signature.bind(op.name, shapes)
    inits = signature.of_nothing(bound)
    if inits is None:
        return None
    results = zip(signature.results, signature.result_shapes(bound), strict=True)
    return {
        one.name: np.asarray(operands[inits[one.name]]) if one.name in inits else np.empty(shape)
        for one, shape in results
    }
