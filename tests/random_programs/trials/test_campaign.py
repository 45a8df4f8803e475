"""The tool: planted faults are found, made small and printed; a run goes on from its log."""

import json

import numpy as np
import planted
import pytest

from tvm_iree_ext.base import errors
from tvm_iree_ext.random_programs.drawing.shrink import shrunk
from tvm_iree_ext.random_programs.drawing.web import from_json
from tvm_iree_ext.random_programs.trials import campaign, trial
from tvm_iree_ext.random_programs.trials.campaign import recipes, run
from tvm_iree_ext.random_programs.trials.task import Recipe, Setting

HERE = Setting("linalg")


def seed_with(*ops, dtype="float32"):
    """The recipe of a program that has these operations."""
    for seed in range(1000):
        recipe = Recipe(seed, dtype, 12)
        if set(ops) <= set(trial.web_of(campaign.ProgramTask(recipe, HERE)).ops()):
            return recipe
    raise AssertionError(f"no program has {ops}")


@pytest.fixture
def as_numpy(monkeypatch):
    """Programs give what NumPy does, without being built."""

    def run(imported, web, setting):
        values = trial.oracle.expected(web)
        return [value.data for value in values]

    monkeypatch.setattr(trial, "run", run)
    monkeypatch.setattr(trial, "find_door", lambda name: _unread(trial, name))
    return run


def _unread(trial, name):
    from dataclasses import replace

    from tvm_iree_ext.random_programs.doors.doors import find_door

    return replace(find_door(name), read=lambda text, web: None)


def test_what_is_right_is_right(as_numpy):
    results = list(run(HERE, recipes(["float32", "int8"], 4, 0, 30), jobs=0))
    assert [result.kind for result in results] == ["right"] * 4
    assert [result.recipe.dtype for result in results] == ["float32", "int8"] * 2


def test_an_operation_that_computes_wrongly_is_found_and_left_alone(as_numpy, monkeypatch):
    recipe = seed_with("reverse", "binary")

    def wrong(imported, web, setting):
        results = as_numpy(imported, web, setting)
        has = any(
            n.op == "reverse" and n.type.shape[n.attributes["axes"][0]] > 1 for n in web.nodes
        )
        return [result + has for result in results]

    monkeypatch.setattr(trial, "run", wrong)
    (result,) = run(HERE, [recipe], jobs=0)
    small = from_json(result.small)
    assert (result.kind, small.ops()) == ("wrong", ["reverse"])
    assert small.nodes[0].type.size <= 3
    assert "result 0" in result.message
    assert "import tvm_iree_ext as ext" in result.script
    assert "affine_map" in result.script


def test_a_rule_that_computes_wrongly_is_found(monkeypatch):
    """A fault in the package: the larger of two is the smaller."""
    from tvm_iree_ext.random_programs.doors import arith

    recipe = seed_with("clamp", dtype="int32")
    monkeypatch.setitem(arith._SIGNED, "max", "minsi")
    (result,) = run(HERE, [recipe], jobs=0)
    small = from_json(result.small)
    assert result.kind == "wrong"
    assert len(small.nodes) == 1
    exec(compile(result.script, "script", "exec"), {})  # runs as it is printed


def test_an_error_that_is_not_ours_is_found_with_its_cause(as_numpy, monkeypatch):
    def fail(imported, web, setting):
        if "transpose" in web.ops():
            raise IndexError(f"tuple index {len(web.nodes)} out of range")
        return as_numpy(imported, web, setting)

    monkeypatch.setattr(trial, "run", fail)
    (result,) = run(HERE, [seed_with("transpose")], jobs=0)
    assert result.kind == "foreign"
    assert result.cause == "foreign: IndexError: tuple index N out of range"
    assert from_json(result.small).ops() == ["transpose"]


def test_an_error_of_ours_is_a_refusal(as_numpy, monkeypatch):
    def refuse(imported, web, setting):
        raise errors.ScheduleError("no rule of this")

    monkeypatch.setattr(trial, "run", refuse)
    (result,) = run(HERE, [Recipe(0, "float32")], jobs=0)
    assert (result.kind, result.message, result.small) == ("refused", "no rule of this", "")


def test_a_program_that_ends_its_process_is_found_and_made_small(monkeypatch):
    for name, function in (("_limited", planted.crash), ("_web", planted.web)):
        monkeypatch.setattr(campaign, name, function)
    monkeypatch.setattr(campaign, "_script", planted.script)
    recipe = next(r for s in range(99) if "reverse" in planted_ops(r := Recipe(s, "int32", 8)))
    results = list(run(HERE, [recipe, Recipe(1, "bool", 5)], limit_s=100))
    assert results[0].kind == "crashed"
    assert "SIGABRT" in results[0].message
    assert results[0].script == "# reverse"
    assert [result.kind for result in results[1:]] == ["right"]


def test_a_program_that_cannot_be_drawn_is_named_and_the_run_goes_on(monkeypatch):
    for name in ("_limited", "_web"):
        monkeypatch.setattr(campaign, name, planted.crash)
    recipe = next(r for s in range(99) if "reverse" in planted_ops(r := Recipe(s, "int32", 8)))
    (result,) = run(HERE, [recipe], limit_s=100)
    assert result.kind == "crashed"
    assert "drawn again, the process" in result.message


def planted_ops(recipe):
    return planted.web(campaign.ProgramTask(recipe, HERE)).ops()


def test_a_program_that_takes_too_long_is_named(monkeypatch):
    monkeypatch.setattr(campaign, "_limited", planted.hang)
    monkeypatch.setattr(campaign, "_web", planted.web)
    monkeypatch.setattr(campaign, "_script", planted.script)
    (result,) = run(HERE, [Recipe(3, "int8")], limit_s=9)
    assert result.kind == "slow"
    assert str(result).startswith("slow: linalg, int8, seed 3: took more than 9 s")


def test_a_run_goes_on_from_its_log(as_numpy, monkeypatch, tmp_path):
    log, programs = tmp_path / "log.jsonl", recipes(["bool"], 5, 0, 8)
    before = list(run(HERE, programs[:3], jobs=0, log=log))
    assert [json.loads(line)["kind"] for line in log.read_text().splitlines()] == ["right"] * 3
    tried = []
    monkeypatch.setattr(campaign, "_tried", lambda task: tried.append(task) or as_right())
    after = list(run(HERE, programs, jobs=0, log=log))
    assert [task.program for task in tried] == programs[3:]
    assert after[:3] == before
    assert len(log.read_text().splitlines()) == 5
    log.write_text("{}\n")
    with pytest.raises(errors.ExtError, match="is no log of random programs"):
        list(run(HERE, programs, jobs=0, log=log))


def as_right():
    return campaign.TrialOutcome("right")


def test_minutes_end_a_run(as_numpy):
    assert list(run(HERE, recipes(["bool"], 5, 0, 8), jobs=0, minutes=-1.0)) == []


def test_what_is_not_there_is_refused():
    with pytest.raises(errors.ExtError, match="no door 'onnx'; there are linalg, stablehlo"):
        list(run(Setting("onnx"), []))
    with pytest.raises(errors.ExtError, match="no programs of 'f8'; there are float32"):
        recipes(["f8"], 1, 0, 30)


def test_extents_and_types_become_simple():
    web = trial.web_of(campaign.ProgramTask(seed_with("dot", dtype="bfloat16"), HERE))

    def has_a_product(candidate):
        return any(node.op == "dot" for node in candidate.nodes)

    small = shrunk(web, has_a_product)
    assert small.ops() == ["dot"]
    assert {type.dtype for type in small.types} <= {"float32", "int32"}
    assert max(np.prod(type.shape) for type in small.types) <= 1
