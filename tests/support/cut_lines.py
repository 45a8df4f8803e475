"""Lowering configs of rules along lines that cut short lines, as a simulator can afford."""

from dataclasses import replace

import numpy as np

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.targets.gpu import subgroup_size
from tvm_iree_ext.targets.names import make_target

TARGETS = ("cuda:sm_90a", "cuda:sm_80", "rocm:gfx942", "rocm:gfx1100")


def cut_small(
    config: LoweringConfig, target: str, along: int, tiles: int, workgroups: int
) -> LoweringConfig:
    """``config`` with an access of each lane in a tile, and at least ``tiles`` of them in a part.

    Args:
        config: a heuristic's.
        target: for its subgroups.
        along: how many of these share a line.
        tiles: 1 or more.
        workgroups: how many share all lines; 0 for parts of just so many tiles.
    """
    lines = config.workgroup_tile["lines"] // config.subgroups["lines"]
    each = 1 if config.algorithm == "rows" else config.vector_lanes
    lanes = subgroup_size(make_target(target)) * each // lines
    positions = along * lanes * (config.vector_lanes // each)
    return replace(
        config,
        subgroups={"lines": 1, "positions": along},
        workgroup_tile={"lines": lines, "positions": tiles * positions},
        reduction_tile={"positions": positions},
        workgroups=workgroups,
    )


def random_lines(rng: np.random.Generator) -> tuple[list[int | str], list[int], int]:
    """A shape with names at random, its extents, and the dimension of its lines."""
    outer, length, inner = rng.integers(1, 5), rng.integers(1, 700), rng.integers(1, 5)
    extents = [int(n) for n in (outer, length, inner)]
    dimension = int(rng.integers(0, 2))
    extents = extents[1 - dimension : int(rng.integers(2, 4))]
    named = [n if rng.random() < 0.5 else "mnk"[at] for at, n in enumerate(extents)]
    return named, extents, dimension
