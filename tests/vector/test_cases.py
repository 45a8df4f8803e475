"""The specification's cases of vector ops."""

import json

import pytest

from tvm_iree_ext.vector.ir.vector_errors import REMEDIES
from tvm_iree_ext.verify import kernel_checks, vector_cases
from tvm_iree_ext.verify.spec_examples import ExampleCase, PatternCase, Rejection, read_examples


@pytest.fixture
def file(root):
    return root / "tests" / "data" / "vector_examples.json"


def test_every_case_gives_what_is_expected_or_is_refused(file, compiled):
    """As each op is meant, then compiled: ``verify`` builds a kernel for each, here all are one."""
    pairs = []

    def collect(program, inputs):
        pairs.append((program, inputs))
        return program.evaluate(**inputs)

    read = read_examples(file)
    assert [wrong for case in read if (wrong := case.check(collect))] == []
    assert (len(read), len(pairs)) == (171, 106)
    results = iter(compiled(pairs))
    cases = [case for case in read if isinstance(case, ExampleCase)]
    assert [wrong for case in cases if (wrong := case.check(lambda *_: next(results)))] == []


def test_verify_builds_and_runs_them(file):
    report = kernel_checks.check_examples(file, ops=["vector.fma", "vector.scatter"])
    assert str(report) == "6 passed, 0 failed"


def test_a_wrong_result_and_a_wrong_refusal_are_failures(file):
    data = json.loads(file.read_text())
    case = data["cases"][0]
    case["expected"]["result"]["data"][0][0] = 7.0
    wrong = ExampleCase(case["id"], case["op"], case).check(lambda *_: {})
    assert wrong.startswith("result[0, 0] is 6, expected 7")
    rejection = {**data["rejections"][0], "error": "E_RANK"}
    assert Rejection("r", "op", rejection).check(None) == "refused with E_MAP, expected E_RANK"
    legal = {"op": "vector.transpose", "types": {"vector": "4x8xf32"}, "error": "E_RANK"}
    legal["attrs"] = {"permutation": [1, 0]}
    assert Rejection("r", "op", legal).check(None) == "refused with nothing, expected E_RANK"


def test_a_wrong_cost_is_a_failure():
    data = {"from": [4, 6], "to": [24], "native": 4, "legal": True, "cost": 0}
    case = PatternCase("c", "vector.cast_costs", data)
    assert case.check(None) == "costs 1, expected 0"
    wrong = PatternCase("c", "vector.cast_costs", {**data, "to": [23]}).check(None)
    assert wrong == "costs inf, and is said to be legal"


def test_every_code_of_the_cases_has_a_remedy(file):
    codes = {case["error"] for case in json.loads(file.read_text())["rejections"]}
    assert codes <= set(REMEDIES)


def test_a_malformed_type_is_not_taken_for_a_refusal():
    case = {"op": "vector.transpose", "types": {"vector": "4yf32"}, "attrs": {"permutation": []}}
    with pytest.raises(ValueError, match="'4yf32' is not a type"):
        vector_cases.refusal(case)
