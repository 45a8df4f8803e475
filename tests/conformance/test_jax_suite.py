"""A sample of JAX's functions is right through ``from_jax``; see docs/conformance.md for all."""

import pytest

from tvm_iree_ext.conformance import running, suite_named

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
