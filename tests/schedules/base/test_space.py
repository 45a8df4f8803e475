"""Spaces: finite, with the heuristic in them, and every point a config by hand."""

import random

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.schedules.base.space import Choice, TuningSpace, form, other_place
from tvm_iree_ext.schedules.dispatch import RULES, choose
from tvm_iree_ext.targets.names import make_target

BASE = LoweringConfig(
    algorithm="panels", workgroup_tile={"m": 64}, register_tile={"rows": 4}, vector_lanes=16
)
TILES = form(
    BASE,
    Choice("vector_lanes", (8,)),
    Choice("register_tile.rows", (2, 8)),
    Choice("workgroup_tile.m", (1, 2, 3), ("register_tile.rows", "vector_lanes")),
)
ACCEPTED = TuningSpace((TILES,), lambda one: "too tall" if one.workgroup_tile["m"] > 128 else None)


def test_a_choice_has_the_value_of_the_base_in_its_place():
    assert [choice.values for choice in TILES.choices] == [(8, 16), (2, 4, 8), (1, 2, 3)]


def test_tiles_are_multiples_of_the_tiles_inside_them():
    config = TILES.config((0, 2, 2))
    assert (config.vector_lanes, config.register_tile["rows"]) == (8, 8)
    assert config.workgroup_tile["m"] == 3 * 8 * 8


def test_every_point_is_found_again_from_its_config():
    points = list(ACCEPTED.points())
    assert 0 < len(points) < ACCEPTED.size == 18
    assert [ACCEPTED.decisions(ACCEPTED.config(point)) for point in points] == points


def test_a_config_from_elsewhere_is_no_point():
    with pytest.raises(ScheduleError, match="no point of the space"):
        ACCEPTED.decisions(LoweringConfig())


def test_samples_and_neighbours():
    rng = random.Random(0)
    point = ACCEPTED.sample(rng)
    assert ACCEPTED.accept(ACCEPTED.config(point)) is None
    other = ACCEPTED.neighbour(point, rng)
    assert sum(a != b for a, b in zip(point, other, strict=True)) == 1
    assert {other_place(0, 2, rng) for _ in range(8)} == {1}


def test_an_empty_space_says_so():
    with pytest.raises(ScheduleError, match="none of 1000 points"):
        TuningSpace((TILES,), lambda _: "no").sample(random.Random(0))


CASES = {name: entry.random_case for name, entry in ENTRIES.items()}


@pytest.mark.parametrize(
    ("name", "target"),
    [(name, "llvm:znver4") for name in CASES]
    + [(name, "llvm:haswell") for name in CASES if name.endswith(("contraction", "attention"))],
)
def test_the_heuristic_is_a_point_of_every_space_and_samples_come_back(name, target):
    """Of random ops of every kind."""
    import numpy as np

    resolved, rng = make_target(target), random.Random(1)
    for index in range(2):
        op, _ = CASES[name](np.random.default_rng([3, index]))
        rule = choose(op, resolved)
        space = rule.space(op, resolved)
        usual = rule.heuristic(op, resolved)
        assert space.config(space.decisions(usual)) == usual == space.heuristic
        assert space.accept(usual) is None
        config = space.config(space.sample(rng))
        assert space.config(space.decisions(config)) == config
        assert LoweringConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    "op",
    [
        ops.attention((1, 2, 48, 16), (1, 2, 40, 16), (1, 2, 40, 16)),
        ops.sort((3, 300), dimension=1),
        ops.topk((3, 300), k=8, dimension=1),
        ops.scan((3, 300), dimension=1, inclusive=True, reassociate=True),
        ops.fft_transform((2, 64)),
    ],
    ids=lambda op: op.name,
)
def test_what_is_accepted_can_be_lowered(op):
    target, rng = make_target("llvm:znver4"), random.Random(2)
    rule = choose(op, target)
    space = rule.space(op, target)
    for number in range(len(space.forms)):
        one = TuningSpace((space.forms[number],), space.accept)
        rule.lower(op, target, one.config(one.sample(rng)))


def test_every_rule_has_a_space():
    assert all(callable(rule.space) for rule in RULES)


HEADS = (1, 4, 256, 64)


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90a", "rocm:gfx942", "rocm:gfx1201"])
@pytest.mark.parametrize(
    "op",
    [
        ops.matmul((512, 256), (256, 384), dtype="float16"),
        ops.attention(HEADS, HEADS, HEADS, dtype="float16"),
        ops.conv_2d((1, 30, 30, 32), (3, 3, 32, 64), dtype="float16"),
    ],
    ids=lambda op: op.name.rpartition(".")[2],
)
def test_a_gpus_space_has_every_instruction_for_the_types(op, target):
    resolved, rng = make_target(target), random.Random(1)
    rule = choose(op, resolved)
    space, usual = rule.space(op, resolved), rule.heuristic(op, resolved)
    assert space.config(space.decisions(usual)) == usual == space.heuristic
    assert space.accept(usual) is None
    assert usual.mma_kind in {form.base.mma_kind for form in space.forms}
    for number in range(len(space.forms)):
        one = TuningSpace((space.forms[number],), space.accept)
        config = one.config(one.sample(rng))
        assert config.mma_kind == one.forms[0].base.mma_kind
        assert space.config(space.decisions(config)) == config
