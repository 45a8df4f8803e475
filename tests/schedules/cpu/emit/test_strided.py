"""Which loops are merged, and where squares can be transposed."""

import pytest
from tvm import tirx

from tvm_iree_ext.schedules.cpu.emit.strided import StridedBound, StridedLoops, TableNumber, Walk


def test_loops_that_all_operands_walk_alike_are_one():
    loops = StridedLoops((3, 4, 5), {"near": (20, 5, 1), "far": (40, 5, 1), "index": (1, 0, 0)})
    assert loops.merged() == StridedLoops(
        (3, 20), {"near": (20, 1), "far": (40, 1), "index": (1, 0)}
    )


def test_loops_of_one_step_vanish():
    loops = StridedLoops((1, 4, 1), {"near": (4, 1, 1), "far": (9, 2, 7)})
    assert loops.merged() == StridedLoops((4,), {"near": (1,), "far": (2,)})
    assert StridedLoops((1, 1), {"near": (1, 1)}).merged() == StridedLoops((1,), {"near": (0,)})
    assert StridedLoops((), {"near": ()}).merged() == StridedLoops((1,), {"near": (0,)})


def test_an_operand_that_repeats_along_one_loop_keeps_it_apart():
    loops = StridedLoops((3, 4), {"near": (4, 1), "mask": (0, 1)})
    assert loops.merged() == loops


def test_steps_that_are_not_known_keep_loops_apart():
    width = tirx.Var("width", "int64")
    loops = StridedLoops((3, 4), {"near": (4, 1), "far": (width, 1)})
    assert loops.merged().extents == (3, 4)


@pytest.mark.parametrize(
    ("far", "extra", "crossing"),
    [
        ((1, 8), {}, 0),
        ((8, 1), {}, None),
        ((8, 0), {}, None),
        ((2, 8), {}, None),
        ((1, 8), {"mask": (1, 0)}, None),
        ((1, 8), {"mask": (0, 1)}, None),
        ((1, 0), {"index": (0, 1)}, 0),
        ((1, 8), {"index": (1, 0)}, None),
        ((1, 8), {"bound": (1, 0)}, None),
    ],
)
def test_squares_are_transposed_where_another_loop_runs_along_the_far_memory(far, extra, crossing):
    loops = StridedLoops((8, 8), {"near": (8, 1), "far": far, **extra})
    symbols = [TableNumber("index", {"far": 8})] if "index" in extra else []
    bounds = [StridedBound("bound", 7)] if "bound" in extra else []
    assert Walk(loops, {}, symbols, bounds).crossing == crossing
