"""Functions of JAX by name, through ``from_jax``, beside what ``jax.jit`` computes."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.conformance.jax_factors import comparable
from tvm_iree_ext.conformance.jax_samples import samples
from tvm_iree_ext.conformance.judging import judged
from tvm_iree_ext.conformance.outcomes import SuiteCase, Verdict
from tvm_iree_ext.frontends.jax.jax_functions import from_jax

_MODULES = (
    "jax.lax",
    "jax.lax.linalg",
    "jax.nn",
    "jax.numpy",
    "jax.numpy.fft",
    "jax.numpy.linalg",
    "jax.scipy.fft",
    "jax.scipy.linalg",
    "jax.scipy.signal",
    "jax.scipy.special",
    "jax.scipy.stats",
)
_TYPES = ("float32", "int32", "bool", "complex64", "bfloat16")

_COLLECTIVES = {
    "all_gather", "all_to_all", "axis_index", "axis_size", "pbroadcast", "pcast", "pdot", "pgather",
    "pmax", "pmean", "pmin", "ppermute", "pshuffle", "psum", "psum_scatter", "pswapaxes", "pvary",
    "ragged_all_to_all", "all_gather_reduced", "unreduced_psum", "psend", "precv",
}  # fmt: skip
_HIGHER = {
    "associative_scan", "cond", "custom_linear_solve", "custom_root", "fori_loop", "map",
    "platform_dependent", "reduce", "reduce_window", "scan", "switch", "while_loop",
    "apply_along_axis", "apply_over_axes", "composite", "fromfunction", "frompyfunc", "piecewise",
    "vectorize",
}  # fmt: skip
_HOST = {
    "after_all", "array_repr", "array_str", "asarray", "create_token", "empty", "empty_like",
    "from_dlpack", "frombuffer", "fromfile", "fromiter", "fromstring", "get_printoptions", "infeed",
    "load", "outfeed", "printoptions", "save", "savez", "set_printoptions", "stop_gradient",
    "with_sharding_constraint", "reduce_precision_p", "rng_bit_generator", "rng_uniform",
    "random_gamma_grad", "optimization_barrier",
}  # fmt: skip


class JaxSuite:
    """Each function of :data:`_MODULES` with arrays of each type that it takes."""

    def __init__(self, seed: int) -> None:
        try:
            import jax
        except ImportError as error:
            raise MlirError(
                f"JAX is not installed: {error}; pip install 'tvm-iree-ext[jax]'"
            ) from None
        self._jax, self._seed = jax, seed

    @functools.cached_property
    def _cases(self) -> list[SuiteCase]:
        found = {}
        for module in _MODULES:
            for name, value in vars(importlib.import_module(module)).items():
                if _is_function(name, value):
                    found[f"{module}.{name}"] = _why_not(name)
        return [
            SuiteCase(f"{name} {dtype}", name, dtype, skip)
            for name, skip in sorted(found.items())
            for dtype in (_TYPES if not skip else ("any",))
        ]

    def cases(self) -> Sequence[SuiteCase]:
        """One for each function and type."""
        return self._cases

    def run(self, case: SuiteCase) -> Verdict:
        """Find arguments that the function takes, and compare."""
        module, _, name = case.op.rpartition(".")
        function = getattr(importlib.import_module(module), name)
        dtype = self._jax.numpy.dtype(case.dtype)
        for sample in samples(case.op, dtype, self._seed):
            leaves, tree = self._jax.tree_util.tree_flatten(sample)
            places = [place for place, one in enumerate(leaves) if _is_array(one)]

            def whole(
                *arrays: Any, leaves: Any = leaves, places: Any = places, tree: Any = tree
            ) -> Any:
                given = list(leaves)
                for place, array in zip(places, arrays, strict=True):
                    given[place] = array
                inputs = self._jax.tree_util.tree_unflatten(tree, given)
                named = inputs[-1] if isinstance(inputs[-1], dict) else {}
                return function(*inputs[: len(inputs) - bool(named)], **named)

            arrays = [leaves[place] for place in places]
            try:
                wanted = self._jax.tree_util.tree_leaves(self._jax.jit(whole)(*arrays))
            except Exception:  # of any kind: it does not take these arguments
                continue
            if not wanted or not all(hasattr(one, "dtype") for one in wanted):
                continue
            with scratch() as folder:
                results = from_jax(whole, *arrays, folder=folder / "program")(*arrays)
            results = results if isinstance(results, tuple) else (results,)
            came, due = (
                comparable(case.op, [np.asarray(one) for one in several])
                for several in (results, wanted)
            )
            return judged(came, due)
        return Verdict("skipped", "no arguments of this type are known that jax.jit takes")


def suite(seed: int) -> JaxSuite:
    """The suite, whose arguments are drawn."""
    return JaxSuite(seed)


def _is_function(name: str, value: Any) -> bool:
    if name.startswith("_") or not callable(value) or inspect.isclass(value):
        return False
    return not name.endswith("_p") and not inspect.ismodule(value)


def _why_not(name: str) -> str:
    if name in _COLLECTIVES:
        return "of several devices"
    if name in _HIGHER:
        return "takes a function: tests/frontends has programs of them"
    return "no computation of arrays, or of random numbers" if name in _HOST else ""


def _is_array(one: Any) -> bool:
    return isinstance(one, np.ndarray | np.generic)
