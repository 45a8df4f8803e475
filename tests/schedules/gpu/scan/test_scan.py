"""Scans on both vendors' GPUs: by lanes, by workgroups, by several kernels."""

from dataclasses import replace

import numpy as np
import pytest
from cut_lines import TARGETS, cut_small, random_lines

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.registry import find
from tvm_iree_ext.schedules.gpu.scan.scan_rule import GpuScan
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target

LAST = "select(arg1 > 0, arg1, arg0)"  # associative; neither commutes nor has an identity


def scanned(op, target, x, config=None):
    """The simulations; results are the reference's."""
    line = tuple(n for axis, n in enumerate(x.shape) if axis != op.dimension)
    operands = {"input": x, "accumulator_init": np.full(line, 3).astype(x.dtype)}
    done = simulate_op(op, target, operands, config=config).check()
    for name, want in find(op.name).reference(op, operands).items():
        np.testing.assert_array_equal(done.results[name], want)
    return done.simulations


def numbers(*shape, dtype="int32"):
    return np.random.default_rng(0).integers(-5, 5, shape).astype(dtype)


@pytest.mark.costly
@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize(
    ("target", "shape", "dimension"),
    [
        ("cuda:sm_80", (9, 61), 1),  # several rows in a subgroup, none of whole accesses
        ("rocm:gfx1100", (3, 1), 1),
        ("cuda:sm_80", (2, 3000), 1),  # several subgroups a row
        ("rocm:gfx942", (70, 3, 5), 0),  # lanes along both
        ("rocm:gfx1100", (3, 20, 40), 1),
    ],
)
def test_lines_of_any_dimension(target, shape, dimension, inclusive):
    how = {"dimension": dimension, "dtype": "int32", "inclusive": inclusive}
    scanned(ops.scan(shape, LAST, reassociate=True, **how), target, numbers(*shape))


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_a_long_row_takes_one_pass_and_what_workgroups_tell_is_cleared_before(target):
    x = numbers(40_001)
    op = ops.scan(x.shape, LAST, dtype="int32", reassociate=True)
    clearing, scan = scanned(op, target, x)
    assert clearing.grid == (1, 1, 1)
    assert scan.grid > (1, 1, 1)
    assert scan.uncoalesced == 0


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_a_long_column_takes_three_kernels(target):
    x = numbers(3001, 16)
    op = ops.scan(x.shape, LAST, dtype="int32", dimension=0, reassociate=True)
    first, totals, last = scanned(op, target, x)
    assert first.grid == last.grid > (1, 1, 1)
    assert totals.grid == (16, 1, 1)


@pytest.mark.parametrize(
    ("target", "shape", "inclusive"),
    [("cuda:sm_80", (5, 40), False), ("rocm:gfx942", (5000,), True)],
)
def test_words_of_128_bits_are_handed_on_in_pieces(target, shape, inclusive):
    """From lane to lane, and from workgroup to workgroup, which tell more than one part."""
    x = numbers(*shape, dtype="complex128") + 1j * numbers(*shape)[::-1]
    axis = len(shape) - 1
    op = ops.scan(x, "add", dimension=axis, inclusive=inclusive, reassociate=True)
    scanned(op, target, x)


@pytest.mark.parametrize("dynamic", [("n", 33), (2, "n")])
def test_extents_of_the_call(dynamic):
    x = numbers(2, 33)
    scanned(ops.scan(dynamic, dimension=1, dtype="int32"), "cuda:sm_80", x)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "rows"), [("float16", 5), ("bfloat16", 40), ("float32", 40), ("float64", 5)]
)
def test_floats_keep_their_order(dtype, rows):
    x = np.random.default_rng(1).standard_normal((rows, 75)).astype("float32")
    op = ops.scan(x.shape, dimension=1, dtype=dtype)
    assert op.in_order
    (done,) = scanned(op, "cuda:sm_80", x.astype(numpy_dtype(dtype)))
    # Many rows change hands, so that neighbouring lanes read them.
    promoted = GpuScan().heuristic(op, make_target("cuda:sm_80")).promote
    assert promoted == (("input",) if rows == 40 else ())
    assert any(one.space == "shared" for one in done.accesses) == bool(promoted)


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(3))
def test_parts_of_lines_of_any_shape(target, seed):
    """Parts of the config's length or, where so many workgroups are wanted, of the call's."""
    rng = np.random.default_rng(seed)
    shape, extents, dimension = random_lines(rng)
    inclusive = bool(rng.random() < 0.5)
    how = {"dimension": dimension, "dtype": "int32", "inclusive": inclusive, "reassociate": True}
    op, (along, tiles) = ops.scan(shape, LAST, **how), rng.integers(1, 3, 2).tolist()
    heuristic = GpuScan().heuristic(op, make_target(target))
    tiles = 1 if heuristic.algorithm == "rows" else tiles
    for workgroups in (0, int(rng.integers(2, 9))):
        config = cut_small(heuristic, target, along, tiles, workgroups)
        scanned(op, target, numbers(*extents), config)


@pytest.mark.costly
@pytest.mark.parametrize(("rows", "length", "grids"), [
    (1, 6000, [1, 6]), (2, 12_000, [1, 24]), (4, 6000, [4]), (1, 2000, [1]),
])  # fmt: skip
def test_the_call_tells_how_many_workgroups_share_a_line(rows, length, grids):
    op = ops.scan(("m", "n"), LAST, dimension=1, dtype="int32", reassociate=True)
    config = GpuScan().heuristic(op, make_target("cuda:sm_80"))
    assert config.workgroups == 4 * 108
    assert config.workgroup_tile["positions"] == config.reduction_tile["positions"]
    config = replace(
        config, workgroups=7, workgroup_tile={"lines": 1, "positions": 1024},
        reduction_tile={"positions": 1024},
    )  # fmt: skip
    done = scanned(op, "cuda:sm_80", numbers(rows, length), config)
    assert [one.grid[0] for one in done] == grids


def test_rows_are_read_in_whole_accesses():
    x = numbers(8, 256, dtype="float32")
    (done,) = scanned(ops.scan(x.shape, "max", dimension=1), "cuda:sm_80", x)
    assert done.uncoalesced == 0
    wide = {one.access_bytes for one in done.accesses if one.buffer in ("input", "output")}
    assert wide == {16}


@pytest.mark.costly
@pytest.mark.parametrize("shape", [("n",), (3, "n"), ("n", 3)])
def test_lines_without_elements_keep_their_init(shape):
    """Where the call says so: in one kernel or three."""
    dimension = shape.index("n")
    op = ops.scan(shape, dimension=dimension, dtype="int32")
    x = np.zeros([0 if extent == "n" else extent for extent in shape], "int32")
    init = np.full([extent for extent in shape if extent != "n"], 5, "int32")
    done = simulate_op(op, "rocm:gfx942", {"input": x, "accumulator_init": init}).check()
    np.testing.assert_array_equal(done.results["accumulator"], init)


def test_a_config_that_does_not_fit_is_refused():
    rule, target = GpuScan(), make_target("cuda:sm_80")
    op = ops.scan((64, 512), dimension=1, dtype="int32")
    config = rule.heuristic(op, target)
    for field, value, message in (
        ("algorithm", "tree", "algorithm is 'tree'; expected one of rows, columns"),
        ("workgroup_tile", {"lines": 3}, r"\['lines'\] is 3; expected what the subgroups' lanes"),
        ("reduction_tile", {"positions": 100}, r"\['positions'\] is 100; expected a multiple of"),
        ("vector_lanes", 8, "vector_lanes is 8; expected a power of two up to 4"),
        ("subgroups", {"lines": 64, "positions": 1}, "subgroups is 64; expected at most 32"),
        ("promote", ("input",), "promote is .*; expected nothing"),
    ):
        with pytest.raises(ScheduleError, match=message):
            rule.lower(op, target, replace(config, **{field: value}))
    ordered = ops.scan((64, 512), dimension=1)
    with pytest.raises(ScheduleError, match="lines are shared, but only their order"):
        rule.lower(ordered, target, config)
    handed = replace(
        rule.heuristic(ops.scan((4096, 4096), dimension=1), target),
        subgroups={"lines": 4, "positions": 1},
        workgroup_tile={"lines": 128},
        reduction_tile={"positions": 128},
    )
    with pytest.raises(ScheduleError, match=r"bytes of shared memory is 6\d+; expected at most 4"):
        rule.lower(ops.scan((4096, 4096), dimension=1), target, handed)
    assert rule.applies(op, make_target("llvm")) == "llvm is not a GPU target"
