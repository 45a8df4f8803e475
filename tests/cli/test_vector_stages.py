import json

import pytest


def test_prints_each_stage_with_its_counts(command):
    done = command("vector-stages", "dot")
    assert done.status == 0
    titles = [line for line in done.lines if line.startswith("== ")]
    assert titles[0] == "== source =="
    assert titles[-1] == "== lowered =="
    assert "carried: 4 x vector 4" in done.lines
    assert any(line.startswith("loop:   8 x transfer_read 4, 16 x extract") for line in done.lines)


def test_prints_one_stage_alone(command):
    done = command("vector-stages", "conv", "--stage", "hoisted")
    assert [line for line in done.lines if line.startswith("==")] == ["== hoisted =="]
    assert "carried: 2 x vector 4" in done.lines


def test_json_has_what_the_text_has(command):
    stages = json.loads(command("vector-stages", "dot", "--json").out)
    last = stages[-1]
    assert last["stage"] == "lowered"
    assert last["counts"]["loop"]["fma 4"] == 16
    assert last["carried"] == ["4 x vector 4"]
    assert last["text"].startswith("func @dot(")
    assert last["why"]


@pytest.mark.parametrize(("cpu", "lanes"), [("haswell", 8), ("skylake-avx512", 16)])
def test_a_target_chooses_registers_and_tiles(command, cpu, lanes):
    target = json.dumps({"kind": "llvm", "mcpu": cpu, "mtriple": "x86_64-linux-gnu"})
    arguments = ("vector-stages", "dot", "--json", "--stage", "lowered", "--target", target)
    (stage,) = json.loads(command(*arguments).out)
    assert stage["counts"]["loop"][f"fma {lanes}"]
    assert stage["carried"][0].endswith(f"vector {lanes}")


def test_what_there_is_not_is_refused(command):
    done = command("vector-stages", "dot", "--stage", "melted")
    assert done.status == 1
    assert "stage is 'melted'; expected one of source, tiled, vectorised" in done.err
    assert command("vector-stages", "dot", "--target", "opencl").status == 1
