"""A sample of ONNX's own tests is right through ``from_onnx``; see docs/conformance.md for all."""

import pytest

from tvm_iree_ext.conformance import running, suite_named

pytest.importorskip("onnx")
pytest.importorskip("iree.compiler")

SAMPLE = (
    "pytorch-operator/test_operator_params",
    "simple/test_sign_model",
    "test_abs",
    "test_bernoulli",
    "test_cumsum_1d",
    "test_strnormalizer_nostopwords_nochangecase",
)


def test_a_sample():
    suite = suite_named("onnx")
    cases = {case.name: case for case in suite.cases()}
    found = {name: running.tried(suite, cases[name]) for name in SAMPLE}
    assert found.pop("test_bernoulli").kind == "skipped"
    text = found.pop("test_strnormalizer_nostopwords_nochangecase")
    assert (text.kind, text.by) == ("refused", "ours")
    assert text.message == "input x is of type string; expected a tensor of numbers"
    assert {name: one.kind for name, one in found.items()} == dict.fromkeys(found, "right")
    assert found["test_cumsum_1d"].message == "with constants axis"


def test_every_test_of_the_package_is_a_case():
    cases = suite_named("onnx").cases()
    assert len({case.name for case in cases}) == len(cases) > 1800
    ops = {case.name: case.op for case in cases}
    assert ops["test_gelu_tanh_2"] == "Gelu"
    assert ops["test_gelu_tanh_2_expanded"] == "Gelu expanded"
