"""A sample of PyTorch's own is right through ``from_torch``; see docs/conformance.md for all."""

import pytest

from tvm_iree_ext.conformance import running, suite_named

pytest.importorskip("expecttest", reason="pip install 'tvm-iree-ext[conformance]'")
pytest.importorskip("iree.turbine.aot", exc_type=ImportError)

SAMPLE = {
    "add/float32/1": "right",
    "cumsum/bfloat16/0": "right",
    "median/int64/0": "right",
    "module nn.Linear/float32/0": "right",
    "logical_or/bool/0": "right",
    "uniform/float32/0": "skipped",
    "abs/float32/1": "skipped",
    "new_empty/float32/0": "skipped",
    "linalg.eig/float32/0": "refused",
}


def test_a_sample():
    suite = suite_named("torch")
    cases = {case.name: case for case in suite.cases()}
    assert len(cases) == len(suite.cases()) > 2500
    assert {name: running.tried(suite, cases[name]).kind for name in SAMPLE} == SAMPLE
