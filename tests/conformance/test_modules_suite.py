"""Modules that are drawn: any process draws the same, and a sample is right."""

import pytest

from tvm_iree_ext.conformance import suite_named

torch = pytest.importorskip("torch", reason="pip install 'tvm-iree-ext[pytorch]'")
pytest.importorskip("iree.turbine.aot", exc_type=ImportError)


def test_a_number_draws_one_module():
    suite, other = suite_named("modules"), suite_named("modules", 1)
    cases = suite.cases()
    assert len({case.name for case in cases}) == len(cases) >= 2000
    for case in cases[:8]:
        drawn, again = suite.drawn(case), suite.drawn(case)
        assert repr(drawn.module) == repr(again.module) != repr(other.drawn(case).module)
        assert all(map(torch.equal, drawn.inputs, again.inputs))
        assert len(drawn.module.steps) >= 3


@pytest.mark.costly
@pytest.mark.parametrize("name", ["float32/0", "float32/1", "float32/2", "bfloat16/3"])
def test_a_sample(name):
    suite = suite_named("modules")
    assert suite.run({case.name: case for case in suite.cases()}[name]).kind == "right"
