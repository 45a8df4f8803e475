"""The verifier passes what is right, and, as much to the point, fails what is wrong."""

import dataclasses
import doctest
import signal
from collections import Counter

import numpy as np
import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import (
    BuildError,
    CallError,
    ExtError,
    OpError,
    ScheduleError,
    TargetError,
)
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.runtime import machine
from tvm_iree_ext.schedules import dispatch
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks
from tvm_iree_ext.verify.kernel_checks import CheckReport, CheckResult
from tvm_iree_ext.verify.spec_examples import ExampleCase

ATTENTION = "iree_linalg_ext.attention"
ONLINE = "iree_linalg_ext.online_attention"


@pytest.fixture
def examples(root):
    return root / "tests" / "data" / "examples.json"


@pytest.fixture
def plant(monkeypatch):
    """``plant(reference=...)``: attention's registry entry with something else in it."""

    def change(**fields):
        monkeypatch.setitem(ENTRIES, ATTENTION, dataclasses.replace(ENTRIES[ATTENTION], **fields))

    return change


def one_off(op, operands):
    """A reference that is wrong in its last element."""
    right = ENTRIES["iree_linalg_ext.online_attention"].reference(op, operands)
    right["output"].flat[-1] = np.nan_to_num(right["output"].flat[-1]) + 1.0
    return right


def test_all_examples_pass_but_those_of_ops_to_come(examples):
    report = kernel_checks.check_examples(examples)
    assert report.of("failed") == []
    counts = Counter(case.op for case in kernel_checks.example_cases(examples))
    assert (counts[ATTENTION], counts[ONLINE], counts["nested_layout"]) == (13, 7, 11)
    missing = {op for op, _ in report.unsupported}
    assert missing & {ATTENTION, "nested_layout", *ENTRIES} == set()
    passed = Counter(result.op for result in report.of("passed"))
    assert passed == {op: count for op, count in counts.items() if op not in missing}


def test_an_op_without_an_entry_is_unsupported_and_no_failure(examples, monkeypatch):
    others = {name: entry for name, entry in ENTRIES.items() if name != ONLINE}
    monkeypatch.setattr("tvm_iree_ext.verify.spec_examples.ENTRIES", others)
    report = kernel_checks.check_examples(examples, ops=["online_attention"])
    assert report.unsupported == {(ONLINE, "not supported yet"): 7}
    assert str(report) == "0 passed, 0 failed"


def test_a_wrong_expectation_is_a_failure(examples):
    (case,) = (one for one in kernel_checks.example_cases(examples) if one.id == "attention/tiny")
    result = {**case.data["expected"]["result"], "data": [[[6.5, 3.5], [3.5, 6.5]]]}
    wrong = dataclasses.replace(case, data={**case.data, "expected": {"result": result}})
    (outcome,) = kernel_checks.check([wrong])
    assert outcome.status == "failed"
    assert outcome.message == (
        "result[0, 0, 0] is 6.33478212, expected 6.5 within 2e-05, off by 0.165;"
        " 4 of 4 elements are wrong"
    )


def test_a_kernel_unlike_its_reference_is_a_failure(plant):
    plant(reference=one_off)
    first, second = kernel_checks.check(kernel_checks.random_cases(["attention"], count=2))
    assert (first.status, second.status) == ("failed", "failed")
    assert first.id == f"{ATTENTION} --seed 0 --case 0"
    assert "output[" in first.message
    assert "elements are wrong" in first.message
    assert "attention(query: " in first.message
    assert "'scale': " in first.message


def test_an_op_of_the_users_is_compared_with_its_reference(plant):
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 1, 2, 5, 8), dtype="float32")
    op = ops.attention(q, k, v, causal=True)
    operands = {"query": q, "key": k, "value": v}
    assert kernel_checks.check_op(op, operands) == CheckResult(str(op), op.name, "passed")
    plant(reference=one_off)
    assert kernel_checks.check_op(op, operands).message.startswith("output[0, 1, 4, 7] is ")
    with pytest.raises(CallError, match="query axis 2 has extent 4"):
        kernel_checks.check_op(op, {**operands, "query": q[:, :, :4]})


def test_operands_are_those_of_the_op():
    q = np.zeros((1, 1, 1, 8), "float32")
    op = ops.attention(q, q, q)
    with pytest.raises(CallError, match="value is missing; they are query, key, value"):
        kernel_checks.check_op(op, {"query": q, "key": q})
    with pytest.raises(CallError, match="mask is not one of its operands; they are query"):
        kernel_checks.check_op(op, {"query": q, "key": q, "value": q, "mask": q})


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: kernel_checks.check([], jobs=-1), "jobs is -1; expected at least 0"),
        (lambda: kernel_checks.random_cases(count=0), "count is 0; expected at least 1"),
        (lambda: kernel_checks.random_cases(seed=-1), "seed is -1; expected at least 0"),
        (lambda: kernel_checks.random_cases(index=-1), "index is -1; expected at least 0"),
    ],
)
def test_refuses_numbers_below_the_least(run, message):
    with pytest.raises(ExtError, match=message):
        run()


def test_a_result_beyond_its_type_is_infinite():
    q = np.zeros((1, 1, 1, 8), "float32")
    v = np.full_like(q, 1e30)
    op = ops.attention(q, q, v, output_dtype="float16")
    assert kernel_checks.check_op(op, {"query": q, "key": q, "value": v}).message == ""


def test_a_scale_given_at_call_time_is_as_exact_as_the_op():
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 1, 5, 8))
    op = ops.attention(q, k, v, scale="operand")
    operands = {"query": q, "key": k, "value": v, "scale": 1 / 3}
    assert kernel_checks.check_op(op, operands).status == "passed"


def test_a_random_case_is_the_same_alone():
    (alone,) = kernel_checks.random_cases(["attention"], seed=5, index=3)
    among = kernel_checks.random_cases(count=9, seed=5)
    assert alone in among
    assert len(among) == 9 * len(ENTRIES)
    made = []
    for case in (alone, among[3], among[4]):
        case.check(
            lambda op, operands: made.append(op) or ENTRIES[ATTENTION].reference(op, operands)
        )
    assert made[0].describe() == made[1].describe() != made[2].describe()


def test_one_that_raises_does_not_stop_the_others(plant):
    def broken(rng):
        raise ZeroDivisionError("in the middle\nof it")

    plant(random_case=broken)
    cases = kernel_checks.random_cases([ATTENTION, ONLINE], count=1)
    assert [(r.status, r.message) for r in kernel_checks.check(cases)] == [
        ("failed", "ZeroDivisionError: in the middle"),
        ("passed", ""),
    ]


def test_a_refusal_is_a_failure(plant):
    def refused(case, run):
        raise OpError("attention: no")

    plant(run_example=refused)
    cases = [ExampleCase("a", ATTENTION, {"attrs": {}, "inputs": {}, "expected": {}})]
    assert [(r.status, r.message) for r in kernel_checks.check(cases)] == [
        ("failed", "attention: no")
    ]


class Crashing:
    """A case that ends the process which unpacks it."""

    id, op = "crash", ATTENTION

    def __reduce__(self):
        return signal.raise_signal, (signal.SIGSEGV,)


def test_a_crash_is_a_failure(examples):
    fine = kernel_checks.example_cases(examples, ["nested_layout"])[:1]
    before, crashed, after = kernel_checks.check([*fine, Crashing(), *fine], jobs=1)
    assert (before.status, after.status) == ("passed", "passed")
    assert crashed == CheckResult("crash", ATTENTION, "failed", "ended the process by SIGSEGV")


def test_an_op_that_no_rule_takes_is_not_supported(monkeypatch):
    monkeypatch.setattr(dispatch, "RULES", ())
    (result,) = kernel_checks.check(kernel_checks.random_cases(["attention"], count=1))
    assert result.status == "unsupported"
    assert result.message.startswith(f"{ATTENTION}: no schedule for llvm")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("gfx942", "target 'gfx942': kind is 'gfx942'; supported are llvm"),
        ("llvm:z80", "LLVM knows no CPU 'z80'"),
        ("llvm:generic@riscv64-linux-gnu", "riscv64-linux-gnu: its kernels do not run on this"),
    ],
)
def test_refuses_a_target_before_anything_is_built(target, message):
    with pytest.raises(TargetError, match=message):
        kernel_checks.check([], target)


def test_refuses_a_cpu_with_more_than_this_one(monkeypatch):
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset({"fpu"}))
    target = {"kind": "llvm", "mcpu": make_target("llvm").attrs["mcpu"]}
    with pytest.raises(TargetError, match=r"its kernels use .*, which this processor lacks"):
        kernel_checks.check([], target)


def test_refuses_ops_that_are_not_registered():
    with pytest.raises(OpError, match=r"no op 'softmax'; registered are arg_compare"):
        kernel_checks.random_cases(["softmax"])


def test_a_given_config_that_does_not_fit_is_refused(plant):
    q = np.zeros((1, 1, 1, 8), "float32")
    op = ops.attention(q, q, q)
    with pytest.raises(ScheduleError, match="algorithm is ''"):
        kernel_checks.check_op(op, {"query": q, "key": q, "value": q}, config=LoweringConfig())


def test_a_report_is_plain_json():
    results = (CheckResult("a", "x.a", "passed"), CheckResult("b", "x.b", "unsupported", "not yet"))
    assert CheckReport(results).to_json() == {
        "passed": 1,
        "failed": 0,
        "unsupported": 1,
        "results": [
            {"id": "a", "op": "x.a", "status": "passed", "message": ""},
            {"id": "b", "op": "x.b", "status": "unsupported", "message": "not yet"},
        ],
    }


def test_nothing_is_left_in_the_cache_or_among_temporary_files(monkeypatch, tmp_path):
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert str(kernel_checks.check_random(["attention"], count=1)) == "1 passed, 0 failed"
    assert list(tmp_path.iterdir()) == []


def test_docstring():
    result = doctest.testmod(kernel_checks)
    assert (result.attempted, result.failed) == (3, 0)


def test_what_is_too_deep_for_python_names_the_op_and_the_case(monkeypatch):
    def endless(*_, **__):
        return endless()

    monkeypatch.setattr(kernel_checks, "build", endless)
    case = kernel_checks.random_cases(["sort"], index=3)
    (result,) = kernel_checks.check(case)
    assert (result.id, result.status) == ("iree_linalg_ext.sort --seed 0 --case 3", "failed")
    assert "iree_linalg_ext.sort: what it computes nests deeper for llvm" in result.message
    op, operands = ENTRIES["iree_linalg_ext.sort"].random_case(np.random.default_rng(0))
    with pytest.raises(BuildError, match=r"iree_linalg_ext\.sort: what it computes nests deeper"):
        kernel_checks.check_op(op, operands)
