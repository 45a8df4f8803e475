"""Operands of a case, and checks of its results."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext import registry
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.bench.base.bench_case import Check, Values
from tvm_iree_ext.catalog.base.entry import EXACT, Tolerance
from tvm_iree_ext.ops.base.op import Op


def exactly(want: np.ndarray, name: str = "result") -> Check:
    """The check of a result that is to be ``want``, bit for bit but for the kind of a NaN."""
    return within({name: want}, {name: EXACT})


def within(want: Mapping[str, np.ndarray], limits: Mapping[str, Tolerance]) -> Check:
    """The check of the result, or of all results in order, beside those wanted."""

    def check(result: Any) -> str | None:
        results = result if isinstance(result, tuple) else (result,)
        for (name, one), got in zip(want.items(), results, strict=True):
            if wrong := first_difference(name, np.asarray(got), one, limits[name]):
                return wrong
        return None

    return check


def within_tolerance(op: Op, values: Values, want: Mapping[str, np.ndarray]) -> Check:
    """The same, with the op's tolerance for these operands."""
    return within(want, registry.find(op.name).tolerance(op, values, want))


def equal(want: np.ndarray) -> Check:
    """The check of a result whose elements are to equal those of ``want``."""

    def check(result: Any) -> str | None:
        wrong = int(np.count_nonzero(np.asarray(result) != want))
        return f"{wrong} of {want.size} elements are wrong" if wrong else None

    return check


def normal_operands(shapes: Mapping[str, Sequence[int]]) -> Callable[[], dict[str, np.ndarray]]:
    """What makes float32 operands of a normal distribution, by name."""

    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}

    return operands
