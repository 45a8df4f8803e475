"""An op's entry in the registry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.tolerance import EXACT, Tolerance
from tvm_iree_ext.ops.base.op import Op

Values = Mapping[str, Any]
"""Arrays by operand or result name; a scalar operand is a float."""


def as_they_are(op: Op, results: Values) -> Values:
    """Results of an op that leaves nothing open."""
    return results


Run = Callable[[Op, Values], dict[str, np.ndarray]]
"""Computes an op: by a kernel, or by the reference."""


def exact(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """The tolerance of an op that moves or selects elements and computes none."""
    return dict.fromkeys(want, EXACT)


@dataclass(frozen=True)
class OpEntry:
    """One op: everything that commands, tests, docs and the tuner need to know of it.

    Attributes:
        name: the dialect's name.
        summary: one line.
        make: the function of :mod:`tvm_iree_ext.ops` that makes it.
        reference: the results of an op for given operands, in NumPy.
        tolerance: how far a kernel's results may be from the reference's, for these operands.
        random_case: an op and operands, from a generator: any shapes, dtypes and attributes.
        run_example: the results that a JSON example case asks for, with a given way to run ops.
        settled: results put in one order, where the op leaves it open.
    """

    name: str
    summary: str
    make: Callable[..., Op]
    reference: Run
    tolerance: Callable[[Op, Values, Values], dict[str, Tolerance]]
    random_case: Callable[[np.random.Generator], tuple[Op, dict[str, Any]]]
    run_example: Callable[[Mapping[str, Any], Run], dict[str, np.ndarray]]
    settled: Callable[[Op, Values], Values] = as_they_are


def no_examples(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """For an op that no dialect has, and so no file of examples.

    Raises:
        OpError: always.
    """
    raise OpError(f"{case['op']}: has no example cases")
