"""Cases end in any way, and the run goes on: outcomes, files, tables and the command."""

import time

import ml_dtypes
import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import ExtError, MlirError, OnnxError
from tvm_iree_ext.base.tolerance import Tolerance
from tvm_iree_ext.conformance import running
from tvm_iree_ext.conformance.judging import judged
from tvm_iree_ext.conformance.outcomes import Outcome, SuiteCase, Verdict, outcome_from_json
from tvm_iree_ext.conformance.refusals import reason, refused
from tvm_iree_ext.conformance.suite import SUITES


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(SUITES, "toy", "toy_suite")
    return ext.conformance.suite_named("toy")


def test_a_run_goes_on_after_every_kind_of_end(toy, tmp_path):
    log = tmp_path / "toy.jsonl"
    some = [case for case in toy.cases() if case.name != "slow"]
    found = {one.case.name: one for one in running.run("toy", some, jobs=2, output=log)}
    kinds = {name: one.verdict.kind for name, one in found.items()}
    assert kinds.pop("broken") == "refused"
    assert kinds == {name: name for name in kinds}
    assert found["wrong"].verdict.error == 5
    assert found["refused"].verdict.by == "ours"
    assert found["refused"].verdict.message == "toy: operand 3 is of 'f4'"
    assert found["broken"].verdict.by == "ours"
    assert found["broken"].verdict.message.startswith("ValueError: cannot reshape")
    assert found["crashed"].verdict.message == "ended the process with status 5"
    assert found["skipped"].verdict.message == "strings"
    assert len(log.read_text().splitlines()) == 6
    with log.open("a") as lines:
        lines.write('{"suite": "toy", "cut')  # by a crash of the whole run
    begin = time.monotonic()
    again = list(running.run("toy", toy.cases(), output=log, limit_s=0.5))
    assert [one.case.name for one in again] == [*(case.name for case in some), "slow"]
    assert again[-1].verdict == Verdict("slow", "took more than 0.5 s")
    assert time.monotonic() - begin < 300


def test_an_outcome_is_tried_again_where_its_kind_is_asked_for(toy, tmp_path):
    log = tmp_path / "toy.jsonl"
    (case,) = [one for one in toy.cases() if one.name == "right"]
    log.write_text(Outcome("toy", 0, case, Verdict("wrong"), 0.0).to_json() + "\n")
    assert next(running.run("toy", [case], output=log)).verdict.kind == "wrong"
    assert next(running.run("toy", [case], output=log, again=["wrong"])).verdict.kind == "right"
    assert next(running.run("toy", [case], output=log)).verdict.kind == "right"


def test_a_file_of_something_else_is_refused(toy, tmp_path):
    log = tmp_path / "other.jsonl"
    log.write_text("{}\n{}\n")
    with pytest.raises(ExtError, match=r"other\.jsonl:1 is no outcome of conformance"):
        next(running.run("toy", toy.cases(), output=log))


def test_cases_are_chosen_by_pattern_type_and_number():
    cases = [
        SuiteCase(f"test_{op}_{i}", op, dtype)
        for i, op in enumerate("abab")
        for dtype in ("x", "y")
    ]
    names = [one.name for one in running.chosen(cases, ["a", "*_1"], ["x"])]
    assert names == ["test_a_0", "test_b_1", "test_a_2"]
    some = running.chosen(cases, limit=3, seed=1)
    assert some == running.chosen(cases, limit=3, seed=1) != running.chosen(cases, limit=3, seed=2)
    assert len(some) == 3
    with pytest.raises(ExtError, match="no case of the suite is of c"):
        running.chosen(cases, ["c"])
    with pytest.raises(ExtError, match=r"no suite 'onx'.*did you mean 'onnx'"):
        ext.conformance.suite_named("onx")


@pytest.mark.parametrize(
    ("got", "want", "said"),
    [
        ([1.0], [1.0 + 2.0**-18], ""),
        ([1.0], [1.0 + 2.0**-16], "result 0[0] is 1, expected"),
        ([1000.0, 0.0], [1000.0, 2.0**-9], ""),  # of the largest: terms have cancelled
        ([np.nan, np.inf], [np.nan, np.inf], ""),
        ([np.nan], [0.0], "result 0[0] is nan, expected 0"),
        ([[1.0]], [1.0], "result 0 has shape [1, 1], expected [1]"),
    ],
)
def test_floats_are_judged_within_roundings(got, want, said):
    verdict = judged([np.array(got, "f4")], [np.array(want, "f4")])
    assert (verdict.kind == "right") == (not said)
    assert verdict.message.startswith(said)


def test_integers_are_equal_and_types_are_the_suites():
    one = np.array([1], "int64")
    assert judged([one], [one], Tolerance(1, 1)).kind == "right"
    assert judged([one + 1], [one], Tolerance(1, 1)).kind == "wrong"
    assert judged([one], [one.astype("int32")]).message == "result 0 is of int64, expected int32"
    assert judged([one], []).message == "1 results, expected 0"
    narrow = np.array([1.5], ml_dtypes.float8_e4m3fn)
    assert judged([narrow.view("uint8")], [narrow]).kind == "right"
    assert judged([narrow.view("uint8") + 8], [narrow]).kind == "wrong"


def test_refusals_say_by_whom():
    doors = OnnxError("no front end takes it\nIREE's front end: Det is absent\nTVM's front end: no")
    assert refused(doors) == Verdict("refused", "IREE: Det is absent; TVM: no", "IREE and TVM")
    lowered = MlirError("IREE does not lower it:\nx.py:1:2: error: failed on 'stablehlo.fft'")
    assert refused(lowered).by == "IREE"
    assert reason(refused(lowered).message) == "error: failed on '...'"
    lowered = MlirError("IREE does not lower it:\nfailed to legalize operation 'torch.operator'")
    assert refused(lowered).by == "torch-mlir"


def test_outcomes_survive_their_file():
    for error in (None, 0.5, float("inf")):
        case = SuiteCase("a", "b", "c", "d")
        outcome = Outcome("onnx", 3, case, Verdict("wrong", "e", "f", error), 1.5)
        assert outcome_from_json(outcome.to_json()) == outcome
