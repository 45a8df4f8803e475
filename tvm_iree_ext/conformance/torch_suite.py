"""PyTorch's own samples: of its operators (``op_db``), and of its modules (``module_db``)."""

import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.conformance import torch_leeway
from tvm_iree_ext.conformance.judging import judged
from tvm_iree_ext.conformance.outcomes import SuiteCase, Verdict
from tvm_iree_ext.frontends.torch.torch_modules import from_torch

_SAMPLES = {"float32": 2, "bfloat16": 1, "int64": 1, "bool": 1} | dict.fromkeys(
    ("float16", "float64", "complex64", "complex128", "int32", "int16", "int8", "uint8"), 1
)
"""How many samples of an operator or a module are cases, by type."""

_UNWRITTEN = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
              "new_empty_strided")  # fmt: skip


class TorchSuite:
    """The first samples of each operator and of each module, forward, for each of some types.

    A case is a function of the sample's tensors; what else it has, such as numbers, is part of the
    program.  A sample that gives something else with another seed is random, and not compared.
    """

    def __init__(self, seed: int) -> None:
        try:
            import torch
            from torch.testing._internal.common_methods_invocations import op_db
            from torch.testing._internal.common_modules import module_db
        except ImportError as error:
            raise ExtError(
                f"what PyTorch's tests need is not installed: {error};"
                " pip install 'tvm-iree-ext[conformance]'"
            ) from None
        self._seed = seed
        self._torch = torch
        self._ops = {_op_name(op): op for op in op_db}
        self._modules = {f"module {one.name}": one for one in module_db}

    @functools.cached_property
    def _cases(self) -> list[SuiteCase]:
        cases = []
        for name, op in [*self._ops.items(), *self._modules.items()]:
            known = op.dtypes if name in self._modules else op.supported_dtypes("cpu")
            for dtype, count in _SAMPLES.items():
                if getattr(self._torch, dtype) not in known:
                    continue
                skip = "memory as it was: any numbers are right" if name in _UNWRITTEN else ""
                for number in range(count):
                    cases.append(SuiteCase(f"{name}/{dtype}/{number}", name, dtype, skip))
        return cases

    def cases(self) -> Sequence[SuiteCase]:
        """So many of each operator and module and type as there may be."""
        return self._cases

    def run(self, case: SuiteCase) -> Verdict:
        """Build a program of the sample's function, and call it with the sample's tensors."""
        torch = self._torch
        found = self._sample(case)
        if found is None:
            return Verdict("skipped", "there are fewer samples")
        function, tensors = found
        try:
            wanted = self._eager(function, tensors, 0)
        except AssertionError as error:  # such as that an operator is of GPUs
            return Verdict("skipped", f"PyTorch does not run it here: {error}")
        if not wanted:
            return Verdict("skipped", "gives no tensor")
        if any(one.layout is not torch.strided for one in [*tensors, *wanted]):
            return Verdict("skipped", "is of sparse tensors")
        others = self._eager(function, tensors, 1)
        if any(not _is_same(torch, a, b) for a, b in zip(wanted, others, strict=True)):
            return Verdict("skipped", "random numbers: any are right")

        class Sample(torch.nn.Module):  # type: ignore[name-defined]
            def forward(self, *given: Any) -> Any:
                return function(*given)

        with scratch() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = from_torch(
                Sample(),
                *(one.clone() for one in tensors),
                folder=folder / "program",
                strict_export=False,
            )
            results = program(*(one.clone() for one in tensors))
        results = results if isinstance(results, tuple) else (results,)
        ours, theirs = ([array_of(one) for one in found] for found in (results, wanted))
        verdict = judged(ours, theirs)
        if verdict.kind != "wrong":
            return verdict
        if torch_leeway.is_other_order(torch, case.op, tensors[0], results, wanted):
            return torch_leeway.OTHER_ORDER
        is_nearer = torch_leeway.is_nearer(torch, function, tensors, ours, theirs)
        return torch_leeway.NEARER if is_nearer else verdict

    def _sample(self, case: SuiteCase) -> tuple[Callable[..., Any], list[Any]] | None:
        """A sample as a function of tensors, and these; None where there is none."""
        torch, dtype = self._torch, getattr(self._torch, case.dtype)
        torch.manual_seed(self._seed)
        number = int(case.name.rpartition("/")[2])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if case.op in self._ops:
                op = self._ops[case.op]
                samples = op.sample_inputs("cpu", dtype, requires_grad=False)
                sample = next(itertools.islice(samples, number, None), None)
                if sample is None:
                    return None
                called = torch_leeway.without_signs(case.op, op.op, sample)
                arguments = (sample.input, *sample.args), sample.kwargs
            else:
                info = self._modules[case.op]
                made = info.module_inputs_func(
                    info, device="cpu", dtype=dtype, requires_grad=False, training=False
                )
                one = next(itertools.islice(iter(made), number, None), None)
                if one is None or one.forward_input is None:
                    return None
                constructor = one.constructor_input
                called = info.module_cls(*constructor.args, **constructor.kwargs)
                called = called.to(dtype).eval()
                arguments = one.forward_input.args, one.forward_input.kwargs
        return _of_tensors(torch, called, arguments)

    def _eager(self, function: Callable[..., Any], tensors: Sequence[Any], seed: int) -> list[Any]:
        """The results of PyTorch itself; samples that set a seed of their own get another."""
        torch, seeded = self._torch, self._torch.manual_seed
        seeded(seed)
        other = mock.patch.object(torch, "manual_seed", lambda own: seeded(own + seed))
        with other, torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = function(*(one.clone() for one in tensors))
        leaves = torch.utils._pytree.tree_leaves(found)
        return [one.detach() for one in leaves if isinstance(one, torch.Tensor)]


def suite(seed: int) -> TorchSuite:
    """The suite, whose samples are drawn with a seed."""
    return TorchSuite(seed)


def _op_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def _of_tensors(
    torch: Any, called: Callable[..., Any], arguments: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """A function of the tensors among arguments, all others as they are."""
    leaves, form = torch.utils._pytree.tree_flatten(arguments)
    places = [place for place, one in enumerate(leaves) if isinstance(one, torch.Tensor)]

    def function(*tensors: Any) -> Any:
        given = list(leaves)
        for place, one in zip(places, tensors, strict=True):
            given[place] = one
        positional, named = torch.utils._pytree.tree_unflatten(given, form)
        return called(*positional, **named)

    return function, [leaves[place].detach() for place in places]


def _is_same(torch: Any, a: Any, b: Any) -> bool:
    if a.dtype is torch.complex32:  # which PyTorch does not compare
        a, b = a.to(torch.complex64), b.to(torch.complex64)
    return a.shape == b.shape and bool(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


def array_of(tensor: Any) -> np.ndarray:
    """The array of a tensor, of NumPy's types or ``ml_dtypes``'."""
    if isinstance(tensor, np.ndarray):  # of a program without arguments
        return tensor
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    name = str(plain.dtype).removeprefix("torch.")
    if plain.dtype.is_complex or numpy_dtype(name).type.__module__ == "numpy":
        return np.asarray(plain.numpy())
    import torch

    words = plain.view({1: torch.uint8, 2: torch.int16}[plain.itemsize]).numpy()
    return np.asarray(words.view(numpy_dtype(name)))
