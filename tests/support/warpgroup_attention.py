"""Attention on the simulator against its reference."""

import numpy as np

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.catalog.attention import run_reference, tolerance
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function


def simulated(rule, op, target, config, extents=None):
    """The op's results on random operands, against the reference; no finding is allowed."""
    rng = np.random.default_rng(0)
    operands = {}
    for operand in op.signature.arguments:
        shape = tuple((extents or {}).get(extent, extent) for extent in operand.shape)
        values = rng.standard_normal(shape)
        boolean = operand.dtype == "bool"
        operands[operand.name] = (
            values < 0.5 if boolean else values.astype(numpy_dtype(operand.dtype))
        )
    want = run_reference(op, operands)
    got = {
        operand.name: np.zeros(want[operand.name].shape, numpy_dtype(operand.dtype))
        for operand in op.signature.results
    }
    module = rule.lower(op, target, config)
    done = simulate_function(module[op.entry], target, {**operands, **got})
    assert [finding for one in done for finding in one.findings] == []
    allowed = tolerance(op, operands, want)
    for name, value in want.items():
        limits = allowed[name]
        np.testing.assert_allclose(
            got[name].astype(np.float64), value, limits.relative, limits.absolute
        )
