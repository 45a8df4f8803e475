"""What a suite is, and which there are."""

import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.conformance.outcomes import SuiteCase, Verdict


class Suite(Protocol):
    """Cases, and how each is tried.

    A module of a suite has a function ``suite(seed)``, which makes it.  It is made once in the
    process that lists the cases and once in each that tries them; ``seed`` is for what a suite
    draws: two suites of one seed have the same cases.
    """

    def cases(self) -> Sequence[SuiteCase]:
        """All of them, in the order of their tables; names are unique."""
        ...

    def run(self, case: SuiteCase) -> Verdict:
        """Build it, run it and compare (:func:`tvm_iree_ext.conformance.judging.judged`).

        What it raises is a refusal, of whom :func:`tvm_iree_ext.conformance.refusals.refused`
        finds.
        """
        ...


SUITES: Mapping[str, str] = {
    "jax": "tvm_iree_ext.conformance.jax_suite",
    "modules": "tvm_iree_ext.conformance.modules_suite",
    "onnx": "tvm_iree_ext.conformance.onnx_suite",
    "torch": "tvm_iree_ext.conformance.torch_suite",
}
"""Each suite, and the module that has it."""


def suite_named(name: str, seed: int = 0) -> Suite:
    """The suite of a name; what it needs is imported.

    Args:
        name: one of :data:`SUITES`.
        seed: of what it draws.

    Raises:
        ExtError: for another name, and where the suite's packages are not installed.
    """
    if name not in SUITES:
        hint = did_you_mean(name, SUITES)
        raise ExtError(f"no suite {name!r}; there are {', '.join(SUITES)}{hint}")
    return suite_of(SUITES[name], seed)


@functools.cache
def suite_of(module: str, seed: int) -> Suite:
    """The suite of a module."""
    return cast(Suite, importlib.import_module(module).suite(seed))
