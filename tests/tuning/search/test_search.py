"""Points as MetaSchedule's traces, and its search over them."""

import json

import numpy as np
import pytest
from tvm import tirx

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.base.space import Choice, TuningSpace, form
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.tuning.search.cost_model import features
from tvm_iree_ext.tuning.search.search import Search
from tvm_iree_ext.tuning.search.trace_carrier import Carrier

TILES = Choice("workgroup_tile.m", (8, 16, 32, 64, 128, 256))
SPACE = TuningSpace(
    (
        form(
            LoweringConfig(algorithm="panels", workgroup_tile={"m": 64}, vector_lanes=4),
            TILES,
            Choice("vector_lanes", (1, 2, 4, 8, 16)),
            Choice("promote", ((), ("lhs",), ("lhs", "rhs"))),
        ),
        form(LoweringConfig(algorithm="rows", workgroup_tile={"m": 64}), TILES),
    ),
    lambda config: "too many" if config.workgroup_tile["m"] * config.vector_lanes > 2048 else None,
)


def seconds(point):
    """Least for panels of 32 rows in vectors of 8, with rhs packed."""
    config = SPACE.config(point)
    slow = abs(np.log2(config.workgroup_tile["m"] / 32)) + abs(np.log2(config.vector_lanes / 8))
    return 1e-3 * (1 + slow + (config.algorithm == "rows") + ("rhs" not in config.promote))


def run(model, seed, rounds=2):
    search = Search(SPACE, make_target("llvm"), model=model, seed=seed, batch=6)
    usual = SPACE.decisions(SPACE.heuristic)
    search.know(usual, seconds(usual))
    found = []
    for _ in range(rounds):
        batch = search.propose()
        found += batch
        search.tell([seconds(point) for point in batch])
    return found


def test_every_point_is_a_trace_that_goes_through_json():
    carrier = Carrier(SPACE, {"op": "some"})
    for point in SPACE.points():
        trace = carrier.schedule(point).trace.as_json()
        again = carrier.from_json(json.loads(json.dumps(_plain(trace))))
        assert carrier.point(again) == point


def _plain(value):
    """What TVM gives as JSON, in Python's own types."""
    if isinstance(value, tirx.IntImm | tirx.FloatImm):
        return value.value
    return value if isinstance(value, str | int | float | None) else [_plain(v) for v in value]


@pytest.mark.parametrize("model", ["xgboost", "random", "none"])
def test_the_same_seed_and_times_give_the_same_candidates(model):
    if model == "xgboost":
        pytest.importorskip("xgboost")
    first = run(model, seed=3)
    assert first == run(model, seed=3)
    assert len(first) >= 10
    assert model == "xgboost" or first != run(model, seed=4)
    assert all(SPACE.accept(SPACE.config(point)) is None for point in first)


def test_evolution_tries_nothing_twice_and_finds_the_best():
    pytest.importorskip("xgboost")
    found = run("xgboost", seed=1, rounds=5)
    assert len(set(found)) == len(found)
    best = SPACE.config(min(found, key=seconds))
    assert (best.algorithm, best.workgroup_tile["m"], best.vector_lanes) == ("panels", 32, 8)


def test_failures_are_told_and_an_empty_space_ends():
    one = TuningSpace((form(SPACE.heuristic, Choice("vector_lanes", (8,))),))
    search = Search(one, make_target("llvm"), model="random", batch=4)
    batch = search.propose()
    assert sorted(batch) == [(0, 0), (0, 1)]
    search.tell([None, 1e-3])
    assert search.propose() == []


def test_features_tell_configs_apart():
    points = list(SPACE.points())
    assert len({tuple(features(SPACE, SPACE.config(point))) for point in points}) == len(points)
