"""The CPU kernels of scan: right in every form, on hard shapes and values, and lean in memory."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
from agreement import check

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.bench.cases.scan import numpy_scan, scan_case, torch_scan
from tvm_iree_ext.bench.measure.footprint import extra_bytes
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.schedules.cpu.scan.scan_rule import CpuScan
from tvm_iree_ext.targets.names import make_target

RULE = CpuScan()
RNG = np.random.default_rng(11)
LAST = "select(arg1 > 0, arg1, arg0)"


def arrays(shape, dimension, dtype="int32"):
    line = tuple(np.delete(shape, dimension))
    if np.issubdtype(dtype, np.integer):
        return tuple(RNG.integers(-50, 50, s, dtype=dtype) for s in (shape, line))
    return tuple(np.asarray(RNG.standard_normal(s)).astype(dtype) for s in (shape, line))


def config_of(op, **changes):
    return dataclasses.replace(RULE.heuristic(op, make_target("llvm")), **changes)


def algorithm_of(op):
    return config_of(op).algorithm


# Around the vectors of 16 lanes and the blocks of 4 of them.
@pytest.mark.costly
@pytest.mark.parametrize("inclusive", [True, False], ids=["inclusive", "exclusive"])
@pytest.mark.parametrize("rows", [1, 4, 17])
def test_any_length_in_order_and_not(rows, inclusive):
    op = ops.scan((rows, "n"), "2 * arg0 + arg1", dimension=1, inclusive=inclusive, dtype="i32")
    free = ops.scan((rows, "n"), "add", dimension=1, inclusive=inclusive, dtype="i32")
    assert algorithm_of(op) == ("rows" if rows == 1 else "lanes")
    assert algorithm_of(free) == "prefix"
    for length in (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 79, 80, 81, 129, 200):
        check(op, *arrays((rows, length), 1))
        check(free, *arrays((rows, length), 1))


@pytest.mark.costly
@pytest.mark.parametrize("inclusive", [True, False], ids=["inclusive", "exclusive"])
@pytest.mark.parametrize("columns", [1, 3, 15, 16, 17, 31, 100, "n"])
def test_any_number_of_columns(columns, inclusive):
    op = ops.scan((2, 5, columns), dimension=1, inclusive=inclusive, dtype="i32")
    for number in (1, 16, 33) if columns == "n" else (columns,):
        check(op, *arrays((2, 5, number), 1))


def test_cores_share_columns_evenly():
    target = make_target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})
    for columns, tiles, tile in ((2048, 2, 1024), (4091, 2, 2048), (4100, 4, 1040), (9, 1, 64)):
        config = RULE.heuristic(ops.scan((64, columns), dimension=0), target)
        assert config.workgroup_tile["columns"] == tile
        assert -(-columns // tile) == tiles


@pytest.mark.parametrize(
    ("mcpu", "dtype", "lanes"),
    [
        ("graniterapids", "float32", 16),
        ("znver4", "float32", 8),  # which works on 512 bits in two halves
        ("znver4", "float64", 4),
        ("znver4", "float16", 8),
        ("znver4", "int8", 16),
        ("znver3", "float32", 8),
    ],
)
def test_lanes_of_rows_are_those_that_change_places_fast(mcpu, dtype, lanes):
    target = make_target({"kind": "llvm", "mcpu": mcpu, "num-cores": 2})
    op = ops.scan((64, 1000), dimension=1, dtype=dtype)
    assert RULE.heuristic(op, target).vector_lanes == lanes


def test_a_tile_of_columns_that_is_cut_short():
    op = ops.scan((6, 77), dimension=0, dtype="i32")
    config = config_of(op, workgroup_tile={"columns": 32})
    check(op, *arrays((6, 77), 0), config=config)


@pytest.mark.costly
@pytest.mark.parametrize("inclusive", [True, False], ids=["inclusive", "exclusive"])
@pytest.mark.parametrize("splits", [2, 3])
def test_a_line_in_rounds_of_chunks(inclusive, splits):
    # The smallest chunks: a block of vectors each.
    op = ops.scan(("n",), LAST, inclusive=inclusive, dtype="i32", reassociate=True)
    kernel = build(op, config=config_of(op, workgroup_tile={"length": 64}, splits=splits))
    for length in (1, 16, 17, 64, 65, 80, 127, 128, 129, 144, 145, 400, 1000):
        x, init = arrays((length,), 0)
        x[RNG.random(length) < 0.9] = 0
        check(op, x, init, kernel=kernel)
        # What is read beyond a chunk shows where a chunk has none of its own.
        check(op, np.where(np.arange(length) % 2560 < 2500, 0, x), init, kernel=kernel)


def test_several_long_lines_in_rounds():
    op = ops.scan((3, 70_000), dimension=1, dtype="i64", inclusive=False)
    config = config_of(op)
    assert (config.algorithm, config.splits > 1) == ("prefix", True)
    check(op, *arrays((3, 70_000), 1, "int64"))


def test_a_region_that_does_not_commute_keeps_its_operands_in_order():
    op = ops.scan((3, 300), LAST, dimension=1, dtype="i32", reassociate=True)
    assert algorithm_of(op) == "prefix"
    x, init = arrays((3, 300), 1)
    x[RNG.random(x.shape) < 0.9] = 0
    check(op, x, init)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(300,), (20, 50), (50, 20)], ids=str)
def test_sums_in_order_are_rounded_as_step_by_step(dtype, shape):
    # The reference is exact here: so is the kernel.
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    for dimension in range(len(shape)):
        either = (dimension == 0) == (shape[0] == 20)
        for inclusive in (True, False) if len(shape) == 1 else (either,):
            x, init = arrays(shape, dimension, kind)
            check(ops.scan(x, dimension=dimension, inclusive=inclusive), x, init)


def test_rounding_to_bfloat16_keeps_nan_and_infinity():
    x = np.array([3e38, 3e38, 1.0, -np.inf, 1.0], ml_dtypes.bfloat16)
    for shape in ((5,), (1, 5)):
        one = np.zeros(shape[:-1], x.dtype)
        got, _ = build(ops.scan(shape, dimension=len(shape) - 1, dtype="bf16"))(
            x.reshape(shape), one
        )
        want = [float(x[0]), np.inf, np.inf, np.nan, np.nan]
        np.testing.assert_array_equal(got.ravel().astype(np.float64), want)


@pytest.mark.costly
@pytest.mark.parametrize("region", ["min", "max"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_goes_on_to_the_end(region, dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x, init = arrays((2, 200), 1, kind)
    x[0, 70] = np.nan
    x[1, 3] = np.inf
    got, _ = check(ops.scan(x, region, dimension=1), x, init)
    assert np.isnan(got[0, 70:].astype(float)).all()
    assert not np.isnan(got[0, :70].astype(float)).any()


@pytest.mark.parametrize("inclusive", [True, False], ids=["inclusive", "exclusive"])
@pytest.mark.parametrize("splits", [1, 2])
def test_totals_begin_anew_after_runs_of_vectors(inclusive, splits):
    op = ops.scan(("n",), LAST, inclusive=inclusive, dtype="f32", reassociate=True)
    chunk = {"workgroup_tile": {"length": 64 * 40}} if splits > 1 else {}
    kernel = build(op, config=config_of(op, splits=splits, **chunk))
    for length in (1000, 1024, 1025, 5000, 20_000):
        x, init = (one.astype("float32") for one in arrays((length,), 0))
        x[RNG.random(length) < 0.9] = 0
        check(op, x, init, kernel=kernel)
        # What is read beyond a chunk shows where a chunk has none of its own.
        check(op, np.where(np.arange(length) % 2560 < 2500, 0, x), init, kernel=kernel)


def test_roundings_of_a_long_sum_are_few():
    x = np.full(1 << 20, 0.1, "float32")
    got, _ = build(ops.scan(x, reassociate=True))(x)
    want = x.astype("float64").cumsum()
    assert np.abs(got / want - 1).max() < 2e-6  # 2e-5 with a total of all vectors before


@pytest.mark.parametrize("reassociate", [False, True])
def test_a_sum_starts_at_minus_zero(reassociate):
    x, init = np.full(40, -0.0, np.float32), np.float32(0)
    got, _ = build(ops.scan(x, reassociate=reassociate))(x, np.asarray(init))
    assert np.signbit(got).all()


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_integers_wrap(dtype):
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, (3, 100), dtype)
    init = x[:, 0].copy()
    either = int(info.min < 0)
    for region, dimension in (("add", either), ("mul", 1 - either), ("2 * arg0 + arg1", either)):
        start = init if dimension else x[0].copy()
        check(ops.scan(x, region, dimension=dimension, inclusive=False), x, start)


def test_bool_takes_the_bits():
    x = RNG.random((40, 90)) < 0.1
    for region in ("and", "or", "xor", "min", "max"):
        for dimension in (0, 1):
            check(ops.scan(x, region, dimension=dimension), x, x[:, 0] if dimension else x[0])


def test_a_callable_is_a_region():
    x, init = np.arange(1, 40, dtype=np.float32), np.zeros((), np.float32)
    op = ops.scan(x, lambda previous, element: previous * 0.5 + element)
    want = [1.0]
    for element in x[1:]:
        want.append(want[-1] * 0.5 + element)
    np.testing.assert_allclose(build(op)(x, init)[0], want, rtol=1e-6)


def test_one_kernel_serves_every_shape():
    op = ops.scan(("a", "n", "b"), dimension=1, inclusive=False, dtype="i32")
    for shape in ((1, 1, 1), (3, 7, 5), (2, 40, 33)):
        check(op, *arrays(shape, 1))


@pytest.mark.costly
@pytest.mark.parametrize(("shape", "threads"), [((2**20,), 2), ((256, 4096), 2)])
def test_needs_hardly_any_memory_beyond_its_operands(shape, threads):
    op = ops.scan(shape, dimension=len(shape) - 1, reassociate=True)
    assert extra_bytes(build(op).folder, threads) < 1 << 20


@pytest.mark.costly
@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize(("shape", "dimension"), [((60, 70), 0), ((60, 70), 1), ((500,), 0)])
def test_the_benchmarks_peers_compute_the_same(shape, dimension, inclusive):
    case = scan_case(shape, dimension, inclusive=inclusive)
    values = case.operands()
    good = build(case.op)(values["input"], values["accumulator_init"])
    judge = case.check(values)
    assert judge(good) is None
    assert judge(numpy_scan(case.op, values)()) is None
    assert "elements are wrong" in judge(good[0] + 1)
    pytest.importorskip("torch", reason="PyTorch is an optional peer: scripts/setup dev bench")
    assert judge(torch_scan(case.op, values)()) is None


BAD_CONFIGS = {
    "algorithm": ({"algorithm": "tree"}, "algorithm is 'tree'; expected one of columns, lanes"),
    "order": ({"algorithm": "prefix"}, "algorithm is 'prefix'; expected one of columns, lanes, ro"),
    "lanes": ({"vector_lanes": 12}, "vector_lanes is 12; expected a power of two"),
    "splits": ({"splits": 0}, "splits is 0; expected a number from 1"),
    "columns": (
        {"algorithm": "columns", "workgroup_tile": {}},
        r"workgroup_tile\['columns'\] is None; expected a number from 1",
    ),
}


@pytest.mark.parametrize("case", BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_refuses_a_config(case):
    changes, message = case
    op = ops.scan((8, 100), dimension=1)
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, make_target("llvm"), config_of(op, **changes))


def test_refuses_chunks_that_are_no_blocks():
    op = ops.scan((2**22,), reassociate=True)
    with pytest.raises(ScheduleError, match=r"workgroup_tile\['length'\] is 100; expected a mult"):
        RULE.lower(op, make_target("llvm"), config_of(op, workgroup_tile={"length": 100}, splits=2))


def test_lines_on_other_dimensions_are_columns_only():
    op = ops.scan((8, 100), dimension=0)
    with pytest.raises(ScheduleError, match=r"expected 'columns'$"):
        RULE.lower(op, make_target("llvm"), config_of(op, algorithm="lanes"))


@pytest.mark.parametrize("inclusive", [True, False], ids=["inclusive", "exclusive"])
@pytest.mark.parametrize(
    ("dtype", "bound"), [("float32", 6e-7), ("float16", 1.5e-3), ("bfloat16", 1.2e-2)]
)
@pytest.mark.parametrize("length", [9000, "n"])
def test_sums_of_long_columns_are_as_near_as_those_of_short_ones(length, dtype, bound, inclusive):
    """One sum after another is 1e-5 off in float32, and does not grow any more in 16 bits."""
    op = ops.scan((length, 37), dimension=0, inclusive=inclusive, dtype=dtype, reassociate=True)
    x = (RNG.random((9000, 37)) / 8).astype(op.type.dtype)
    output = np.asarray(build(op)(x)[0]).astype("float64")
    sums = np.cumsum(x.astype("float64"), axis=0)
    want = sums if inclusive else np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    assert np.abs(output - want).max() <= bound * want.max()


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("length", [1025, 4096 + 64, 8192 + 65])
def test_runs_of_rows_stay_in_order(length, streaming):
    """Of a region that is associative, and does not commute: the last number that is not 0."""
    op = ops.scan((length, 17), LAST, dimension=0, dtype="float32", reassociate=True)
    config = config_of(op, streaming=streaming, stages=1 + streaming)
    x = np.where(RNG.random((length, 17)) < 0.01, RNG.random((length, 17)), 0).astype("float32")
    output = np.asarray(build(op, config=config)(x, np.zeros(17, "float32"))[0])
    expected = x.copy()
    for row in range(1, length):
        expected[row] = np.where(x[row] > 0, x[row], expected[row - 1])
    np.testing.assert_array_equal(output, expected)
