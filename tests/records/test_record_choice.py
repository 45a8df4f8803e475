"""The config that an op gets from records."""

import contextlib
import dataclasses
import json

import numpy as np
import pytest
from odd_values import mutations

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError, TuningError
from tvm_iree_ext.records import record_choice, record_files
from tvm_iree_ext.records.record import Record, shape_text
from tvm_iree_ext.runtime import cache
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import make_target, target_json
from tvm_iree_ext.tuning import Database, best

TARGET = make_target("llvm")


def matmul(m, n, k, dtype="float32", rhs="(d0, d1, d2) -> (d2, d1)"):
    maps = ["(d0, d1, d2) -> (d0, d2)", rhs, "(d0, d1, d2) -> (d0, d1)"]
    rhs_shape = (k, n) if rhs.endswith("(d2, d1)") else (n, k)
    operands = (ops.TensorType(shape, dtype) for shape in ((m, k), rhs_shape))
    return ops.contraction(*operands, indexing_maps=maps)


OP = matmul(24, 32, 16)
RULE = choose(OP, TARGET)
HEURISTIC = RULE.heuristic(OP, TARGET)
OTHER = dataclasses.replace(HEURISTIC, parallel=not HEURISTIC.parallel)


def record(op=OP, config=OTHER, time_us=1.0, target=TARGET, **fields):
    fields = {"baseline_us": 9.0, "times_us": (time_us,), **fields}
    return Record.of(op.describe(), target_json(target), RULE.name, config.to_json(), **fields)


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return Database(tmp_path / "records.jsonl")


def chosen(database, op=OP, target=TARGET):
    return record_choice.choices(op, target, RULE.name, database)


def test_build_takes_the_best_record_and_says_so(database):
    database.append(record(config=HEURISTIC, time_us=5))
    database.append(record(time_us=2))
    kernel = ext.build(OP, database=database)
    assert (kernel.config, kernel.provenance) == (OTHER, "record exact")
    manifest = json.loads((kernel.folder / "manifest.json").read_text())
    assert manifest["provenance"] == "record exact"
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype("float32") for shape in ((24, 16), (16, 32)))
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4, atol=1e-5)
    assert ext.build(OP, config=HEURISTIC, database=database).provenance == "given"
    assert ext.build(OP, database=()).provenance == "heuristic"


def test_the_users_own_file_is_looked_at(database, monkeypatch):
    assert ext.build(OP).provenance == "heuristic"
    database.append(record())
    monkeypatch.setenv(record_files.VARIABLE, str(database.path))
    assert ext.build(OP).provenance == "record exact"


def test_the_nearest_shape_serves(database):
    database.append(record(matmul(96, 32, 16)))
    database.append(record(matmul(48, 32, 16), config=HEURISTIC))
    names = [origin for _, origin in chosen(database)]
    assert names == ["record nearest 48x32x16", "record nearest 96x32x16"]
    assert ext.build(OP, database=database).provenance == names[0]


@pytest.mark.parametrize(
    "other",
    [
        record(matmul(24 * 5, 32, 16)),  # too far
        record(matmul(24, 32, 16, "float64")),
        record(matmul(24, 32, 16, rhs="(d0, d1, d2) -> (d1, d2)")),
        record(target=make_target({**target_json(TARGET), "num-cores": 77})),
        record(target=make_target("llvm:x86-64")),
        record(time_us=10),  # slower than the heuristic
        record(status="wrong", times_us=()),
    ],
)
def test_what_does_not_fit_does_not_serve(database, other):
    database.append(other)
    assert chosen(database) == []


def test_where_nothing_beat_the_heuristic_no_neighbour_does(database):
    database.append(record(matmul(24, 32, 32)))
    assert len(chosen(database)) == 1
    nearer = matmul(24, 36, 16)
    database.append(record(nearer, config=HEURISTIC, time_us=9))
    assert chosen(database) == []
    database.append(record(nearer, time_us=8))
    assert [origin for _, origin in chosen(database)] == ["record nearest 24x36x16"]
    database.append(record(time_us=10))
    assert chosen(database) == []


def test_a_config_that_the_rule_refuses_is_passed_over(database):
    database.append(record(config=dataclasses.replace(OTHER, algorithm="none such")))
    database.append(record(time_us=3))
    assert len(chosen(database)) == 2
    assert ext.build(OP, database=database).config == OTHER


def test_records_of_other_versions_are_not_used_silently(database):
    database.append(record(versions={"tvm-iree-ext": "0.0.1", "apache-tvm": "0.26"}))
    with pytest.warns(RuntimeWarning, match=r"not used, since they were made with tvm-iree-ext 0"):
        assert chosen(database) == []


def test_measured_records_go_before_static_ones(database):
    static = dataclasses.replace(OTHER, splits=7)
    database.append(record(config=static, time_us=1, method="static"))
    assert [origin for _, origin in chosen(database)] == ["record exact, static"]
    database.append(record(time_us=2))
    assert chosen(database)[0] == (OTHER, "record exact")


def test_extents_known_at_call_time_match_each_other(database):
    database.append(record(matmul("rows", 32, 16)))
    assert chosen(database, matmul("m", 32, 32)) != []
    assert chosen(database) == []


def test_a_program_takes_records_too(database):
    pytest.importorskip("iree.compiler")
    source = """
func.func @main(%a: tensor<24x16xf32>, %b: tensor<16x32xf32>, %c: tensor<24x32xf32>)
    -> tensor<24x32xf32> {
  %d = linalg.matmul ins(%a, %b : tensor<24x16xf32>, tensor<16x32xf32>)
      outs(%c : tensor<24x32xf32>) -> tensor<24x32xf32>
  return %d : tensor<24x32xf32>
}"""
    imported = ext.mlir.import_program(source)
    (op,) = imported.ops.values()
    plain = ext.build(imported, database=database)
    database.append(record(op))
    other = ext.build(imported, database=database)
    assert {*plain.resources["provenance"].values()} == {"heuristic"}
    assert {*other.resources["provenance"].values()} == {"record exact"}


@pytest.mark.parametrize("database", ["none_such.jsonl", 3, [3]])
def test_refuses_files_that_are_not_there(database):
    with pytest.raises(TuningError, match=r"none_such.jsonl: No such|expected a file of records"):
        ext.build(OP, database=database)


@pytest.mark.filterwarnings("ignore:.*is skipped:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*are not used, since they:RuntimeWarning")
def test_no_record_ends_a_build(tmp_path):
    """Whatever one value of a record is changed to, it is taken or left out."""
    op = ops.scan((4, 64), dimension=1)
    rule = choose(op, TARGET)
    config = dataclasses.replace(rule.heuristic(op, TARGET), promote=("x",)).to_json()
    config["workgroup_tile"] = {"rows": 4}
    sound = Record.of(op.describe(), target_json(TARGET), rule.name, config, times_us=(1.0, 2.0))
    origins, lowered = set(), set()
    for number, (what, data) in enumerate(mutations(json.loads(sound.to_line()))):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(json.dumps(data) + "\n")
        try:
            for taken, origin in record_choice.choices(op, TARGET, rule.name, path):
                origins.add(origin)
                if repr(taken) not in lowered:
                    lowered.add(repr(taken))
                    with contextlib.suppress(ScheduleError):
                        rule.lower(op, TARGET, taken)
            repr([shape_text(one) for one in best(record_files.read(path), 1)])
        except Exception as error:
            raise AssertionError(what) from error
    assert "record exact" in origins
    assert len(lowered) > 10


def test_a_record_that_is_left_out_is_named_by_its_line(tmp_path):
    data = json.loads(record().to_line())
    data["attributes"]["extents"] = 5
    path = tmp_path / "records.jsonl"
    path.write_text(record().to_line() + json.dumps(data) + "\n")
    with pytest.warns(RuntimeWarning, match=r"records\.jsonl, line 2, is skipped: it has a malfo"):
        assert record_choice.lowered(OP, TARGET, database=path)[1] == "record exact"
