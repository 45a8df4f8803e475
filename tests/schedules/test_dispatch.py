"""Rules are chosen by what they can do, and configs survive being written down."""

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.dispatch import RULES, choose
from tvm_iree_ext.targets.names import make_target

SHAPE = (1, 2, 64, 32)


def test_every_rule_has_a_name_of_its_own():
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_says_why_each_rule_does_not_apply():
    op = ops.matmul((2**32, 1), (1, 1), dtype="int8")
    with pytest.raises(ScheduleError, match=r"gpu\.contraction: n is 4294967296; expected at most"):
        choose(op, make_target("cuda:sm_80"))


@pytest.mark.parametrize("target", ["llvm", "llvm:haswell", "llvm:neoverse-n1@aarch64-linux-gnu"])
@pytest.mark.parametrize("rows", [1, 64])
def test_a_heuristic_config_round_trips_through_json(target, rows):
    op = ops.attention((1, 2, rows, 32), SHAPE, SHAPE)
    resolved = make_target(target)
    config = choose(op, resolved).heuristic(op, resolved)
    assert LoweringConfig.from_json(config.to_json()) == config


def test_tiles_follow_the_target_and_not_this_machine():
    op = ops.attention(SHAPE, SHAPE, SHAPE)
    lanes = {}
    for name in ("llvm:znver4", "llvm:haswell", "llvm:neoverse-n1@aarch64-linux-gnu"):
        target = make_target(name)
        lanes[name] = choose(op, target).heuristic(op, target).vector_lanes
    assert list(lanes.values()) == [16, 8, 4]


def test_refuses_an_unknown_field():
    with pytest.raises(ScheduleError, match="unknown field tile; known are algorithm"):
        LoweringConfig.from_json({"tile": 3})
