import json

import numpy as np
import pytest

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.verify.spec_examples import ExampleCase, ExampleError, NotSupported, read_examples


@pytest.fixture
def file(tmp_path):
    """Writes a file of examples."""

    def write(data):
        path = tmp_path / "examples.json"
        path.write_text(data if isinstance(data, str) else json.dumps(data), "utf-8")
        return path

    return write


def of(dtype, data, shape=None):
    return {"dtype": dtype, "shape": list(np.shape(data)) if shape is None else shape, "data": data}


class Doubling:
    """A registered op, as far as examples go: ``y = 2 * x``."""

    @staticmethod
    def run_example(case, run):
        return run("doubling", case["inputs"])


@pytest.fixture
def doubling(monkeypatch):
    """``doubling(x, y, **case)``: what is wrong with a case for y = 2 * x."""
    monkeypatch.setitem(ENTRIES, "toy.doubling", Doubling)

    def check(x, y, **case):
        data = {"inputs": {"x": x}, "expected": {"y": y}, **case}
        case = ExampleCase("case", "toy.doubling", data)
        return case.check(lambda op, operands: {"y": operands["x"] + operands["x"]})

    return check


@pytest.mark.parametrize(
    ("dtype", "data", "result"),
    [
        ("i32", [1, -2], [2, -4]),
        ("i64", [2**61 + 1], [2**62 + 2]),
        ("ui8", 3, 6),
        ("f32", [[1.5, "nan"], ["inf", "-inf"]], [[3.0, "nan"], ["inf", "-inf"]]),
        ("f16", [1.5], [3.0]),
        ("bf16", [1.5, "nan"], [3.0, "nan"]),
        ("i1", [0, 1], [0, 1]),
    ],
)
def test_reads_every_dtype(doubling, dtype, data, result):
    assert doubling(of(dtype, data), of(dtype, result)) == ""


def test_reads_empty_arrays(doubling):
    assert doubling(of("f32", [], [0, 3]), of("f32", [], [0, 3])) == ""


def test_tolerance_is_absolute_and_absent_means_exact(doubling):
    x, y = of("f32", [1.0]), of("f32", [2.125])
    assert doubling(x, y, tolerance=0.125) == ""
    assert doubling(x, y, tolerance=0.1) == "y[0] is 2, expected 2.125 within 0.1, off by 0.125"
    assert doubling(x, y) == "y[0] is 2, expected 2.125"


def test_a_result_must_have_the_dtype_and_the_shape(doubling):
    assert doubling(of("f32", [1.0]), of("f64", [2.0])) == "y is float32, expected float64"
    assert doubling(of("f32", [1.0]), of("f32", [[2.0]])) == "y has shape [1], expected [1, 1]"


def test_results_must_have_the_names(doubling):
    expected = {"y": of("f32", [2.0]), "z": of("f32", [2.0])}
    assert doubling(of("f32", [1.0]), None, expected=expected) == "results are y, expected y, z"


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (of("f32", [1.0], [2]), r"data have shape \[1\], and shape says \[2\]"),
        (of("f33", [1.0]), "dtype 'f33' is unknown"),
        (of("f32", ["one"]), "could not convert string to float"),
        (of("i8", [1000]), "malformed case: OverflowError"),
        ({"dtype": "f32", "shape": [1]}, "malformed case: KeyError: 'data'"),
        (7, "malformed case: TypeError"),
    ],
)
def test_a_malformed_case_says_what_is_wrong(doubling, x, message):
    with pytest.raises((ExampleError, OpError), match=message):
        doubling(x, of("f32", [2.0]))


def test_an_op_that_is_not_there_is_not_supported():
    with pytest.raises(NotSupported, match="not supported yet"):
        ExampleCase("case", "iree_linalg_ext.unheard_of", {}).check(lambda op, operands: {})


def test_a_wrong_layout_is_found(root):
    """The cases of nested_layout are answered without a kernel, and compared all the same."""
    (case,) = (
        case
        for case in read_examples(root / "tests/data/examples.json")
        if case.id == "nested_layout/permute"
    )
    assert case.check(lambda op, operands: {}) == ""
    layout = {**case.data["expected"]["layout"], "thread_strides": [1, 4]}
    wrong = ExampleCase(case.id, case.op, {**case.data, "expected": {"layout": layout}})
    assert "thread_strides = [16, 1]" in wrong.check(lambda op, operands: {})
    absent = ExampleCase(case.id, case.op, {**case.data, "expected": {"layout": None}})
    assert absent.check(lambda op, operands: {}).endswith("expected None")


def test_takes_ops_by_name_with_or_without_dialect(root):
    path = root / "tests/data/examples.json"
    short = read_examples(path, ["attention", "winograd.input_transform"])
    full = ["iree_linalg_ext.attention", "iree_linalg_ext.winograd.input_transform"]
    assert read_examples(path, full) == short
    assert {case.op for case in short} == set(full)
    with pytest.raises(ExampleError, match=r"has no case of atention; it has #iree_linalg_ext"):
        read_examples(path, ["atention"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON: Expecting property name"),
        ("\x80", "is not valid JSON"),
        ([], "holds no examples: expected an object with a list 'cases'"),
        ({"schema": 1}, "holds no examples"),
        ({"schema": 2, "cases": []}, "has schema 2; expected 1"),
        ({"schema": 1, "cases": [{"id": "a", "op": "b"}, 3]}, "case 1 lacks an 'id' or an 'op'"),
        ({"schema": 1, "cases": [{"id": "a"}]}, "case 0 lacks an 'id' or an 'op'"),
    ],
)
def test_refuses_damaged_files(file, text, message):
    with pytest.raises(ExampleError, match=message):
        read_examples(file(text))


def test_refuses_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ExampleError, match=r"cannot read .*none\.json: No such file"):
        read_examples(tmp_path / "none.json")
    with pytest.raises(ExampleError, match=r"cannot read .*: Is a directory"):
        read_examples(tmp_path)
