"""Epilogues for random cases of ops that sum products."""

import numpy as np

from tvm_iree_ext.catalog.base.random_arrays import pick

# Of one operand beside the sum: the slope bounds what it does to an error.
_EPILOGUES = (
    "arg0 - arg1",
    "arg0 + arg1",
    "max(arg0 + arg1, 0)",
    "select(arg0 > 0, arg0, arg0 * 0.25) - arg1",
    "tanh(arg0) * 0.5 + arg1",
)
_ALONE = ("max(arg0, 0)", "arg0 * 0.5", "-arg0", "sigmoid(arg0)")
_WHOLE = ("arg0 - arg1", "max(arg0 + arg1, 0)", "min(arg0, arg1)")


def random_epilogue(rng: np.random.Generator, *, whole: bool) -> tuple[str | None, int]:
    """An epilogue, or none, and how many operands it takes; ``whole`` are sums of integers."""
    chosen = rng.random()
    if chosen < 0.6:
        return pick(rng, _WHOLE if whole else _EPILOGUES), 1
    if chosen < 0.8 and not whole:
        return pick(rng, _ALONE), 0
    return None, 0
