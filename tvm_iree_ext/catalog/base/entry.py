"""An op's entry in the registry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.base.comparison import OpenOrder
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.tolerance import EXACT, Tolerance
from tvm_iree_ext.ops.base.op import Op

Values = Mapping[str, Any]
"""Arrays by operand or result name; a scalar operand is a float."""


def all_settled(op: Op) -> OpenOrder | None:
    """None: the op leaves no order open."""
    return None


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
        open_order: the order of results that an op leaves open; None where it leaves none.
    """

    name: str
    summary: str
    make: Callable[..., Op]
    reference: Run
    tolerance: Callable[[Op, Values, Values], dict[str, Tolerance]]
    random_case: Callable[[np.random.Generator], tuple[Op, dict[str, Any]]]
    run_example: Callable[[Mapping[str, Any], Run], dict[str, np.ndarray]]
    open_order: Callable[[Op], OpenOrder | None] = all_settled

    def settled(self, op: Op, results: Values) -> Values:
        """Results put in one order, where the op leaves it open."""
        order = self.open_order(op)
        return results if order is None else order.settled(results)


def no_examples(case: Mapping[str, Any], run: Run) -> dict[str, np.ndarray]:
    """For an op that no dialect has, and so no file of examples.

    Raises:
        OpError: always.
    """
    raise OpError(f"{case['op']}: has no example cases")
