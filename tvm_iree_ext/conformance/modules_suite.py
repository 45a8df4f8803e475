"""Modules of PyTorch that are drawn: 3 to 10 layers and functions each, beside eager PyTorch."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.base.tolerance import Tolerance
from tvm_iree_ext.conformance.judging import judged, largest_difference
from tvm_iree_ext.conformance.outcomes import SuiteCase, Verdict
from tvm_iree_ext.conformance.torch_suite import array_of
from tvm_iree_ext.frontends.torch.torch_modules import from_torch

if TYPE_CHECKING:
    from tvm_iree_ext.conformance.module_draws import Drawn

_COUNTS = {"float32": 1500, "bfloat16": 500}
_WIDER = {"float32": "float64", "bfloat16": "float32"}
_TIMES = 4.0
"""How many times as far as PyTorch's own from what a wider type gives a result may be."""


class ModulesSuite:
    """So many modules of each type; what a case draws hangs on its number and the seed alone."""

    def __init__(self, seed: int) -> None:
        try:
            from tvm_iree_ext.conformance import module_draws
        except ImportError as error:
            raise ExtError(
                f"PyTorch is not installed: {error}; pip install 'tvm-iree-ext[pytorch]'"
            ) from None
        self._seed = seed
        self._draws = module_draws

    def cases(self) -> Sequence[SuiteCase]:
        """In the order of their numbers; their tables go by what a module takes."""
        kinds = self._draws.KINDS
        return [
            SuiteCase(f"{dtype}/{number}", kinds[number % len(kinds)], dtype)
            for dtype, count in _COUNTS.items()
            for number in range(count)
        ]

    def drawn(self, case: SuiteCase, dtype: str | None = None) -> "Drawn":
        """The module of a case and what it is called with, or both in another type."""
        import torch

        number = int(case.name.rpartition("/")[2])
        return self._draws.drawn(self._seed, number, getattr(torch, dtype or case.dtype))

    def run(self, case: SuiteCase) -> Verdict:
        """Build the module's program, and call it with the drawn tensors."""
        drawn = self.drawn(case)
        wanted, exact = (_eager(one) for one in (drawn, self.drawn(case, _WIDER[case.dtype])))
        with scratch() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = from_torch(drawn.module, *drawn.inputs, folder=folder / "program")
            results = program(*(one.clone() for one in drawn.inputs))
        ours = [array_of(one) for one in (results if isinstance(results, tuple) else (results,))]
        error = max(map(largest_difference, wanted, exact))
        return judged(ours, wanted, Tolerance(_TIMES * error, 0.0))


def suite(seed: int) -> ModulesSuite:
    """The suite, whose modules are drawn with a seed."""
    return ModulesSuite(seed)


def _eager(drawn: "Drawn") -> list[Any]:
    import torch

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = drawn.module(*drawn.inputs)
    return [array_of(one) for one in torch.utils._pytree.tree_leaves(found)]
