import json

import numpy as np
import pytest
from places import DATA

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout import NestedLayout, to_simd, to_simt
from tvm_iree_ext.verify.layout_cases import run_case

CASES = json.loads((DATA / "nested_layout_cases.json").read_text("utf-8"))["cases"]
DTYPES = {"i32": np.int32}


def cases(op):
    return [pytest.param(case, id=case["id"]) for case in CASES if case["op"] == op]


def array(value):
    return np.array(value["data"], DTYPES[value["dtype"]]).reshape(value["shape"])


def run_boundary_cast(case, cast, operand):
    attrs = case["attrs"]
    layout = NestedLayout(**attrs["layout"])
    return cast(array(operand), layout, attrs["num_subgroups"], attrs["subgroup_size"])


@pytest.mark.parametrize("case", cases("nested_layout"))
def test_nested_layout(case):
    results = run_case(case)
    assert results.keys() == case["expected"].keys()
    for name, expected in case["expected"].items():
        if expected is None:
            assert results[name] is None
        elif "subgroup_tile" in expected:
            assert results[name] == NestedLayout(**expected)
        else:
            assert results[name].dtype == DTYPES[expected["dtype"]]
            np.testing.assert_array_equal(results[name], array(expected), strict=True)


@pytest.mark.parametrize("case", cases("iree_vector_ext.to_simt"))
def test_to_simt(case):
    got = run_boundary_cast(case, to_simt, case["inputs"]["input"])
    np.testing.assert_array_equal(got, array(case["expected"]["per_subgroup_per_thread"]))


@pytest.mark.parametrize("case", cases("iree_vector_ext.to_simd"))
def test_to_simd(case):
    got = run_boundary_cast(case, to_simd, case["inputs"]["per_subgroup_per_thread"])
    np.testing.assert_array_equal(got, array(case["expected"]["result"]))


def test_all_cases_are_here():
    assert len(cases("nested_layout")) == 11
    assert len(CASES) == 19


def test_refuses_an_unknown_transform():
    attrs = {"layout": CASES[-1]["attrs"]["layout"], "transform": "rotate"}
    with pytest.raises(LayoutError, match="transform 'rotate' is unknown"):
        run_case({"attrs": attrs})
