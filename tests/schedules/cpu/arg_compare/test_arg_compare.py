"""The CPU kernels of arg_compare: right in every form, on ties, NaN and hard shapes."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
from agreement import check

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.bench.cases.arg_compare import arg_case, numpy_arg, torch_arg
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_rule import CpuArgCompare
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks
from tvm_iree_ext.verify.spec_examples import read_examples

NAME = "iree_linalg_ext.arg_compare"
RULE = CpuArgCompare()
RNG = np.random.default_rng(13)
SIGNS = (">", ">=", "<", "<=")


def arrays(shape, dimension, dtype="float32"):
    """Few different numbers, so that many are equal."""
    line = tuple(np.delete(shape, dimension))
    x, init = (RNG.integers(0, 6, s).astype(dtype) for s in (shape, line))
    return x, np.asarray(init), np.asarray(RNG.integers(-99, -1, line, np.int32))


def config_of(op, **changes):
    return dataclasses.replace(RULE.heuristic(op, make_target("llvm")), **changes)


# Around the vectors of 16 lanes and the blocks of 4 of them.
@pytest.mark.costly
@pytest.mark.parametrize("sign", SIGNS)
def test_any_length_of_contiguous_lines(sign):
    op = ops.arg_compare((3, "n"), sign, dimension=1)
    assert config_of(op).algorithm == "tree"
    for length in (1, 2, 15, 16, 17, 63, 64, 65, 79, 127, 128, 129, 1000):
        check(op, *arrays((3, length), 1))


# The last block begins so that it ends with the line.
@pytest.mark.costly
@pytest.mark.parametrize("length", [63, 64, 65, 127, 128, 200])
@pytest.mark.parametrize("vectors", [1, 3, 4])
def test_contiguous_lines_of_a_length_that_is_known(length, vectors):
    sign = (">", "<=")[(length + vectors) % 2]
    op = ops.arg_compare((20, length), sign, dimension=1)
    check(op, *arrays((20, length), 1), config=config_of(op, register_tile={"vectors": vectors}))


@pytest.mark.parametrize("stages", [1, 2])
def test_what_is_read_next_may_be_fetched(stages):
    op = ops.arg_compare((2, 5000), dimension=1)
    check(op, *arrays((2, 5000), 1), config=config_of(op, stages=stages))


def test_of_a_run_nothing_is_fetched_where_the_cpu_does_so():
    op = ops.arg_compare((2, 5000), dimension=1)
    stages = [
        RULE.heuristic(op, make_target(f"llvm:{cpu}")).stages for cpu in ("znver4", "haswell")
    ]
    assert stages == [1, 2]


@pytest.mark.costly
@pytest.mark.parametrize("sign", [">", "<="])
@pytest.mark.parametrize("length", [1, 2, 7, 64, 129, 1000])
def test_a_line_in_parts(length, sign):
    op = ops.arg_compare((2, length), sign, dimension=1)
    check(op, *arrays((2, length), 1), config=config_of(op, algorithm="tree", splits=3))


def test_a_long_line_is_cut_into_parts():
    op = ops.arg_compare((300_001,), index_base=5)
    assert config_of(op).splits > 1
    x, init, start = arrays((300_001,), 0)
    x[[200_000, 250_000]] = 7
    value, index = build(op)(x, init, start)
    assert (value, index) == (7, 200_005)


REGIONS = (">", "<=", "abs(arg0) > abs(arg1)")


@pytest.mark.costly
@pytest.mark.parametrize(
    ("columns", "regions"),
    [
        *((1, REGIONS[:1]), (3, REGIONS[1:2]), (15, REGIONS[2:]), (16, REGIONS[:1])),
        *((17, REGIONS[1:2]), (31, REGIONS[2:]), (100, REGIONS), ("n", REGIONS)),
    ],
)
def test_any_number_of_columns(columns, regions):
    for region in regions:
        op = ops.arg_compare((2, 7, columns), region, dimension=1)
        for number in (1, 16, 33) if columns == "n" else (columns,):
            check(op, *arrays((2, 7, number), 1))


@pytest.mark.costly
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, "n"])
def test_any_number_of_rows(rows):
    op = ops.arg_compare((rows, 40), dimension=0)
    config = config_of(op, workgroup_tile={"columns": 32})
    for number in (1, 4, 6) if rows == "n" else (rows,):
        check(op, *arrays((number, 40), 0), config=config)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("rows", "length"),
    [
        *((1, 1), (1, 33), (1, "n"), (5, 16), (5, "n"), (16, 33), (16, 1), (17, 16), (17, 33)),
        *(("m", 1), ("m", 33), ("m", "n")),
    ],
)
def test_a_comparator_without_an_order_is_taken_in_the_loops(rows, length):
    op = ops.arg_compare((rows, length), "arg0 != arg1", dimension=1)
    assert config_of(op).algorithm == ("rows" if rows == 1 else "lanes")
    sizes = tuple({"m": 9, "n": 50}.get(extent, extent) for extent in (rows, length))
    check(op, *arrays(sizes, 1))


def test_a_comparison_of_a_selection_is_built_in_seconds():
    # LLVM took minutes when the steps of whole tiles were unrolled.
    op = ops.arg_compare((15, 129), "max(arg0, arg1) == arg0", dimension=1)
    assert config_of(op).algorithm == "lanes"
    check(op, *arrays((15, 129), 1))


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("sign", SIGNS)
def test_nan_infinities_and_zeros(dtype, sign):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]).astype(kind)
    x = RNG.choice(odd, (40, 90))
    # Both dims where the sign is strict, and for the others one, which goes by the type.
    dims = (0, 1) if sign in ("<", ">") else (len(dtype) % 2,)
    for dimension in dims:
        line = np.delete(x.shape, dimension)
        init = RNG.choice(odd, line)
        op = ops.arg_compare(x, sign, dimension=dimension)
        value, _ = check(op, x, init, np.full(line, -7, np.int32))
        want = registry.find(NAME).reference(
            op, {"input_value": x, "init_value": init, "init_index": np.full(line, -7, np.int32)}
        )["value"]
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(value[zero]), np.signbit(want[zero]))


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "uint64", "bool"])
def test_extremes_of_integers(dtype):
    kind = np.dtype(dtype)
    ends = [False, True] if dtype == "bool" else [np.iinfo(kind).min, np.iinfo(kind).max, 0]
    x = RNG.choice(np.array(ends, kind), (20, 100))
    for dimension in (0, 1):
        line = np.delete(x.shape, dimension)
        for sign in SIGNS[(dimension + len(dtype)) % 2 :: 2]:  # the other two along the other dim
            op = ops.arg_compare(x, sign, dimension=dimension)
            check(op, x, RNG.choice(np.array(ends, kind), line), np.full(line, -1, np.int32))


def test_a_base_given_at_call_time_and_indices_that_wrap():
    x, init, _ = arrays((5, 200), 1)
    for dtype in ("int8", "uint16", "int32", "uint64"):
        start = np.zeros(5, dtype)
        op = ops.arg_compare(x, dimension=1, index_base="operand", index_dtype=dtype)
        for base in (0, -3, 2**40 + 17):
            check(op, x, base, init, start)
    wide = ops.arg_compare(x, dimension=1, index_base=2**62, index_dtype="int64")
    check(wide, x, init, np.zeros(5, np.int64))


def test_explicit_indices_are_not_altered():
    for dimension in (0, 1):
        x, init, start = arrays((20, 90), dimension)
        given = RNG.integers(-(2**31), 2**31, x.shape, np.int32)
        for region in (">=", "arg0 != arg1"):
            op = ops.arg_compare(x, region, dimension=dimension, input_index=given)
            check(op, x, given, init, start)


def test_one_kernel_serves_every_shape():
    for dimension in (0, 1, 2):
        op = ops.arg_compare(("a", "b", "c"), dimension=dimension)
        for shape in ((1, 1, 1), (3, 7, 5), (2, 40, 70)):
            check(op, *arrays(shape, dimension))


def test_the_dialects_examples_pass(root):
    cases = read_examples(root / "tests/data/examples.json", ["iree_vector_ext.arg_compare"])
    assert len(cases) == 10
    # They are spelled for the vector op; the tensor op's meaning is the same.
    same = [dataclasses.replace(case, op=NAME) for case in cases[::3]]
    results = list(kernel_checks.check([*cases, *same]))
    assert [result for result in results if result.status != "passed"] == []


@pytest.mark.costly
@pytest.mark.parametrize("name", ["argmax", "vector_argmin"])
@pytest.mark.parametrize(("shape", "dimension"), [((60, 70), 0), ((60, 70), 1), ((500,), 0)])
def test_the_benchmarks_peers_compute_the_same(shape, dimension, name):
    case = arg_case(shape, dimension, name)
    values = case.operands()
    judge = case.check(values)
    good = build(case.op)(*values.values())
    assert judge(good) is None
    assert judge(numpy_arg(case.op, values)()) is None
    assert judge((good[0], good[1] + 1)).startswith("index")
    pytest.importorskip("torch", reason="PyTorch is an optional peer: scripts/setup dev bench")
    assert judge(torch_arg(case.op, values)()) is None


BAD_CONFIGS = {
    "algorithm": ({"algorithm": "fold"}, "algorithm is 'fold'; expected one of columns, lanes, ro"),
    "lanes": ({"vector_lanes": 12}, "vector_lanes is 12; expected a power of two"),
    "splits": ({"splits": 0}, "splits is 0; expected a number from 1"),
    "stages": ({"stages": 3}, "stages is 3; expected 1 or 2"),
    "stages of another form": (
        {"algorithm": "lanes", "register_tile": {}, "stages": 2},
        "two stages are for 'tree'",
    ),
    "vectors": (
        {"register_tile": {}},
        r"register_tile\['vectors'\] is None; expected a number from 1",
    ),
}


@pytest.mark.parametrize("case", BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_refuses_a_config(case):
    changes, message = case
    op = ops.arg_compare((8, 100), dimension=1)
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, make_target("llvm"), config_of(op, **changes))


def test_a_comparator_without_an_order_has_no_tree():
    op = ops.arg_compare((8, 100), "arg0 != arg1", dimension=1)
    with pytest.raises(ScheduleError, match=r"expected one of columns, lanes, rows$"):
        RULE.lower(op, make_target("llvm"), config_of(op, algorithm="tree"))
