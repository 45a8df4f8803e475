"""Kernels against their references: random operands, and the worked cases of the dialects."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.verify.kernel_checks import (
        CheckReport,
        check,
        check_examples,
        check_op,
        check_random,
        example_cases,
        random_cases,
    )

__all__ = [
    "CheckReport",
    "check",
    "check_examples",
    "check_op",
    "check_random",
    "example_cases",
    "random_cases",
]

_MODULES = {
    "kernel_checks": (
        "CheckReport",
        "check",
        "check_examples",
        "check_op",
        "check_random",
        "example_cases",
        "random_cases",
    ),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
