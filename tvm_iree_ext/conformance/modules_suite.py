"""Modules of PyTorch that are drawn: 3 to 10 layers and functions each, beside eager PyTorch."""

import warnings
from collections.abc import Sequence
from math import isfinite
from operator import le
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
_MOVES = 16
"""How often inputs are moved by half a rounding, where a result is farther."""
_AS_FAR = Verdict("right", "as near as half a rounding of the inputs")


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
        drawn, wide = self.drawn(case), self.drawn(case, _WIDER[case.dtype])
        try:
            wanted, exact = _eager(drawn, drawn.inputs), _eager(wide, wide.inputs)
        except NotImplementedError as reason:  # such as of a type
            return Verdict("skipped", f"PyTorch does not run it here: {reason}")
        with scratch() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = from_torch(drawn.module, *drawn.inputs, folder=folder / "program")
            results = program(*(one.clone() for one in drawn.inputs))
        ours = [array_of(one) for one in (results if isinstance(results, tuple) else (results,))]
        error = max(map(largest_difference, wanted, exact))
        verdict = judged(ours, wanted, Tolerance(_TIMES * error, 0.0))
        if verdict.error is None or not isfinite(verdict.error):  # right, or of another type
            return verdict
        moved = _most_moved(wide, exact, case.dtype)
        differences = map(largest_difference, ours, exact)
        allowed = (max(one, _TIMES * error) for one in moved)
        return _AS_FAR if all(map(le, differences, allowed)) else verdict


def _most_moved(wide: "Drawn", exact: Sequence[Any], dtype: str) -> list[float]:
    """How far each result goes, in the wider type, by half a rounding of the inputs."""
    import torch

    generator = torch.Generator().manual_seed(0)
    half = torch.finfo(getattr(torch, dtype)).eps / 2

    def moved(x: Any) -> Any:
        if not x.is_floating_point():
            return x
        signs = torch.randint(0, 2, x.shape, generator=generator) * 2 - 1
        return x * (1 + signs * half)

    results = (_eager(wide, [moved(x) for x in wide.inputs]) for _ in range(_MOVES))
    differences = [list(map(largest_difference, one, exact)) for one in results]
    return list(map(max, zip(*differences, strict=True)))


def suite(seed: int) -> ModulesSuite:
    """The suite, whose modules are drawn with a seed."""
    return ModulesSuite(seed)


def _eager(drawn: "Drawn", inputs: Sequence[Any]) -> list[Any]:
    import torch

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = drawn.module(*inputs)
    return [array_of(one) for one in torch.utils._pytree.tree_leaves(found)]
