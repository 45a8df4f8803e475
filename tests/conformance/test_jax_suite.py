"""A sample of JAX's functions is right through ``from_jax``; see docs/conformance.md for all."""

import numpy as np
import pytest

from tvm_iree_ext.conformance import running, suite_named
from tvm_iree_ext.conformance.jax_factors import comparable

pytest.importorskip("jax")
pytest.importorskip("iree.compiler")

SAMPLE = (
    "jax.lax.psum any",
    "jax.lax.top_k int32",
    "jax.numpy.fft.fft complex64",
    "jax.numpy.logical_xor bool",
    "jax.numpy.fft.rfft complex64",
)


def test_a_sample():
    cases = [case for case in suite_named("jax").cases() if case.name in SAMPLE]
    assert len(cases) == len(SAMPLE)
    found = {one.case.name: one.verdict for one in running.run("jax", cases)}
    assert found.pop("jax.lax.psum any").message == "of several devices"
    complex_input = found.pop("jax.numpy.fft.rfft complex64")
    assert complex_input.kind == "skipped"
    assert complex_input.message.startswith("no arguments of this type are known")
    assert {name: one.kind for name, one in found.items()} == dict.fromkeys(found, "right")


def test_functions_of_all_modules_are_cases_of_each_type():
    cases = suite_named("jax").cases()
    assert len({case.name for case in cases}) == len(cases) > 3000
    types = {case.dtype for case in cases if case.op == "jax.nn.relu"}
    assert types == {"float32", "int32", "bool", "complex64", "bfloat16"}


@pytest.mark.parametrize("function", ["svd", "eigh"])
def test_vectors_may_have_any_sign_and_stay_vectors(function):
    half = np.random.default_rng(0).standard_normal((4, 4))
    factors = [*getattr(np.linalg, function)(half + half.T)]
    other = [one.copy() for one in factors]
    if function == "svd":
        other[2][1] *= -1
    other[0 if function == "svd" else 1][:, 1] *= -1
    scaled = [one * (2 if one.ndim > 1 else 0.25) for one in factors]  # of the same matrix

    def alike(several):
        came, want = (comparable(f"jax.{function}", one) for one in (several, factors))
        return all(np.allclose(*pair) for pair in zip(came, want, strict=True))

    assert alike(other)
    assert not alike(scaled)
