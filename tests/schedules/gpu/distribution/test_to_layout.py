"""to_layout on GPUs: which way a value goes from lanes to lanes, and that it arrives."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.layout import Movement, NestedLayout
from tvm_iree_ext.ops.vector_ext import to_layout
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.mma.operand_layouts import operand_layout
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import check_op

TARGETS = ("cuda:sm_80", "rocm:gfx942")
ROWS = NestedLayout((1, 1), (1, 1), (1, 1), (8, 1), (1, 8), (0, 0), (1, 0))
COLUMNS = NestedLayout((1, 1), (1, 1), (1, 1), (1, 8), (8, 1), (0, 0), (0, 1))
BATCHES = NestedLayout((1, 1), (1, 2), (1, 1), (8, 1), (1, 4), (0, 0), (1, 0))
BATCHES_OUTER = NestedLayout((1, 1), (2, 1), (1, 2), (4, 2), (1, 2), (0, 0), (2, 1))
OUTER_BATCHES = NestedLayout((1, 1), (1, 2), (2, 1), (4, 2), (1, 2), (0, 0), (2, 1))
TURNED = NestedLayout((1, 1), (2, 1), (1, 1), (4, 2), (1, 4), (0, 0), (2, 1))
ACROSS = NestedLayout((4, 1), (1, 1), (1, 1), (2, 4), (1, 2), (1, 0), (4, 1))
LHS = "MFMA_F32_16x16x16_F16"


def simulated(op, target, shape=(8, 8)):
    """The counts of the first launch; the result is the input."""
    given = np.arange(np.prod(shape)).reshape(shape).astype(op.type.dtype)
    done = simulate_op(op, target, {"input": given}).check()
    np.testing.assert_array_equal(done.results["result"], given)
    return done.simulations[0].counts


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("source", "layout", "movement"),
    [
        (ROWS, BATCHES, Movement.FREE),
        (BATCHES_OUTER, OUTER_BATCHES, Movement.IN_LANE),
        (ROWS, COLUMNS, Movement.SHUFFLE),
        (ROWS, TURNED, Movement.SHUFFLE),
        (ACROSS, COLUMNS, Movement.SHARED),
        (COLUMNS, ACROSS, Movement.SHUFFLE),  # every subgroup holds all
    ],
)
def test_goes_the_cheapest_way_that_is_right(source, layout, movement, target):
    op = to_layout((8, 8), layout, source_layout=source, dtype="float16")
    counts = simulated(op, target)
    subgroups = max(source.subgroup_period, layout.subgroup_period)
    assert op.conversion_from(source, subgroups, 32, packed=True).movement is movement
    assert bool(counts.get("shuffle")) == (movement is Movement.SHUFFLE)
    assert bool(counts.get("barrier")) == (movement is Movement.SHARED)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", [None, ROWS, COLUMNS])
def test_is_forced_through_shared_memory(source, target):
    op = to_layout((8, 8), COLUMNS, source_layout=source, shared_memory_conversion=True)
    assert simulated(op, target)["barrier"] == 1
    resolved = make_target(target)
    rule = choose(op, resolved)
    assert "T.alloc_shared" in str(rule.lower(op, resolved, rule.heuristic(op, resolved)))


@pytest.mark.parametrize("target", TARGETS)
def test_a_workgroup_has_a_tile_of_what_is_larger(target):
    for shape, given in [((19, 7), (19, 7)), (("n", 8), (13, 8)), (("n", "k"), (9, 17))]:
        op = to_layout(shape, ROWS, source_layout=ACROSS, dtype="int32")
        tiles = -(-given[0] // 8) * -(-given[1] // 8)
        assert simulated(op, target, given)["barrier"] == 4 * tiles


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
def test_compiles_with_vectors_of_memory(target):
    columns = NestedLayout((1, 1), (1, 1), (1, 1), (1, 16), (16, 1), (0, 0), (0, 1))
    op = to_layout((16, 16), columns, shared_memory_conversion=True, dtype="float16")
    simulate_op(op, target, {"input": np.ones((16, 16), "f2")}, compiled=True).check()


def test_a_vector_without_dims_and_one_of_bits():
    nothing = NestedLayout((), (), (), (), (), (), ())
    simulated(to_layout((), nothing, shared_memory_conversion=True), "cuda:sm_80", ())
    op = to_layout((8, 8), COLUMNS, shared_memory_conversion=True, dtype="bool")
    simulated(op, "rocm:gfx942")


def test_tuning_may_have_more_subgroups_and_none_that_cannot_hold_it():
    op, target = to_layout((8, 8), ACROSS, source_layout=ROWS), make_target("cuda:sm_80")
    rule = choose(op, target)
    space = rule.space(op, target)
    lanes = [space.config(point).workgroup_tile["lanes"] for point in space.points()]
    assert lanes == [32, 64, 128, 256, 512, 1024]
    given = np.ones((8, 8), "f4")
    for config in (space.config(point) for point in list(space.points())[:4]):
        simulate_op(op, target, {"input": given}, config).check()


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            to_layout(
                (16, 16), operand_layout(LHS, "lhs", (16, 16)), shared_memory_conversion=True
            ),
            r"subgroup_size is 32; thread_tile \[16, 4\] .* takes a multiple of 64",
        ),
        (
            to_layout((8, 8), ROWS, mma_kind=LHS),
            r"is of no operand of MFMA_F32_16x16x16_F16: lhs has outer_tile \[1, 1\], thread_tile",
        ),
        (to_layout((8, 8), ROWS, mma_kind="MFMA_F32_16x16x16_F61"), "is unknown; did you mean"),
        (
            to_layout(
                (64, 64),
                NestedLayout((1, 1), (1, 8), (1, 1), (8, 1), (8, 8), (0, 0), (1, 0)),
                shared_memory_conversion=True,
            ),
            r"a lane holds 640 registers of \[64, 64\] before and after; sm_80 has 255",
        ),
    ],
)
def test_refuses(op, message):
    with pytest.raises(ScheduleError, match=message):
        choose(op, make_target("cuda:sm_80"))


def test_an_instructions_layout_and_other_attributes_are_taken():
    for kind in (LHS, f"#iree_gpu.mma_layout<{LHS}>", "#other.attribute", ["of", "JSON"]):
        op = to_layout((32, 16), operand_layout(LHS, "rhs", (32, 16)), mma_kind=kind)
        simulated(op, "cuda:sm_80", (32, 16))


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
def test_no_shuffle_takes_a_complex_number_of_128_bits(target):
    z = np.arange(64).reshape(8, 8) * (1 + 2j)
    op = to_layout(z, COLUMNS, source_layout=ROWS)
    report = check_op(op, {"input": z}, target, simulate=True)
    assert report.status == "passed", report
