"""Relax modules of a few operators, as a user of TVM writes them."""

from tvm import relax


def module_of(operands, emit, dtype="float32"):
    """A module whose ``main`` takes operands of shapes, by names, and gives one value."""
    builder = relax.BlockBuilder()
    given = [
        relax.Var(
            name, kind if isinstance(kind, relax.TensorType) else relax.TensorType(kind, dtype)
        )
        for name, kind in operands.items()
    ]
    with builder.function("main", given, attrs={"global_symbol": "main"}):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(emit(*given)))
        builder.emit_func_output(result)
    return builder.get()
