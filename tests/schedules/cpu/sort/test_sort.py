"""The CPU kernels of sort: right on hard inputs, by digits and by merging."""

import dataclasses
import re

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.schedules.cpu.sort.sort_rule import CpuSort
from tvm_iree_ext.targets.cpu import cpu_features
from tvm_iree_ext.targets.names import make_target

RULE = CpuSort()
TARGET = make_target("llvm")
MERGE = {"algorithm": "merge", "register_tile": {"run": 8}, "vector_lanes": 8}
NETWORK = {"algorithm": "network", "register_tile": {"rows": 8}, "vector_lanes": 8}
QUICK = {"algorithm": "quick", "register_tile": {"rows": 16}}
COLUMNS = {"algorithm": "columns", "register_tile": {}, "vector_lanes": 8, "splits": 1}
RADIX = {"algorithm": "radix", "register_tile": {"digit_bits": 8}}
FORMS = {"radix": RADIX, "merge": MERGE}


FEATURES = cpu_features(TARGET)
needs_compress = pytest.mark.skipif(not FEATURES.compressed_bytes, reason="this CPU packs no lanes")


def config(op, **changes):
    return dataclasses.replace(RULE.heuristic(op, TARGET), **changes)


def run(op, *arrays, **changes):
    """The results of a kernel, as a list."""
    got = build(op, config=config(op, **changes) if changes else None)(*arrays)
    return list(got) if isinstance(got, tuple) else [got]


def stable(keys, *rest, axis=-1, descending=False):
    """Keys and what goes with them, in NumPy's stable order."""
    wide = keys if keys.dtype.kind in "iub" else keys.astype(np.float64)
    if descending:  # the last of the reversed are the first of equals
        order = np.flip(np.argsort(np.flip(wide, axis), axis=axis, kind="stable"), axis)
        order = keys.shape[axis] - 1 - order
    else:
        order = np.argsort(wide, axis=axis, kind="stable")
    return [np.take_along_axis(array, order, axis) for array in (keys, *rest)]


def same(got, want):
    for array, right in zip(got, want, strict=True):
        np.testing.assert_array_equal(array, right)


@pytest.mark.parametrize("form", FORMS)
def test_any_length(form):
    rng = np.random.default_rng(0)
    kernel = build(
        op := ops.sort(("b", "n"), TensorType(("b", "n"), "i32"), dimension=1),
        config=config(op, **FORMS[form]),
    )
    for length in (1, 2, 7, 8, 9, 63, 64, 65, 127, 129, 255, 257, 1000, 4099):
        keys = rng.integers(-20, 20, (3, length)).astype(np.float32)
        places = np.broadcast_to(np.arange(length, dtype=np.int32), keys.shape).copy()
        same(kernel(keys, places), stable(keys, places))


# One row; some that are no whole block; chunks of 256 rows, the last with a block that is cut.
@pytest.mark.costly
@pytest.mark.parametrize("length", [1, 7, 31, 256, 531])
def test_any_length_by_a_network(length):
    rng = np.random.default_rng(10)
    keys = rng.integers(-20, 20, (13, length)).astype(np.float32)  # all of 8 lanes, and some
    op = ops.sort(keys, dimension=1, region=">")
    same(run(op, keys, **NETWORK), stable(keys, descending=True))


@pytest.mark.parametrize("length", [2, 45])
def test_a_network_is_stable_by_places(length):
    rng = np.random.default_rng(14)
    keys = rng.integers(-9, 9, (length, 13)).astype(np.float32)
    places = np.broadcast_to(np.arange(length)[:, None], keys.shape).copy()
    op = ops.sort(keys, places, dimension=0, region="<=")
    form = NETWORK | {"register_tile": {"rows": 4}}
    same(run(op, keys, places, **form), stable(keys, places, axis=0))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "axis"), [("float32", 1), ("float16", 0), ("bfloat16", 1), ("float64", 0)]
)
def test_a_network_keeps_zeros_in_their_order(dtype, axis):
    rng = np.random.default_rng(11)
    keys = rng.choice([0.0, -0.0, 1.0, -1.0, np.inf], (60, 19)).astype(dtypes.numpy_dtype(dtype))
    op = ops.sort(keys, dimension=axis, region=">=")
    (got,) = run(op, keys, **NETWORK)
    (want,) = stable(keys, axis=axis, descending=True)
    same([got], [want])
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_a_network_permutes_whatever_the_comparator_says():
    rng = np.random.default_rng(12)
    keys = rng.standard_normal((40, 37)).astype(np.float32)
    keys[rng.random(keys.shape) < 0.3] = np.nan
    places = np.broadcast_to(np.arange(37, dtype=np.int32), keys.shape).copy()
    for region in ("<", "arg0 != arg1"):
        op = ops.sort(keys, places, dimension=1, region=region)
        got, order = run(op, keys, places, **NETWORK | {"register_tile": {"rows": 4}})
        np.testing.assert_array_equal(np.sort(order, axis=1), places)
        np.testing.assert_array_equal(got, np.take_along_axis(keys, order, 1))


@pytest.mark.parametrize("lanes", [4, 8])  # as integers, and as floats
def test_a_network_loses_no_zero_among_nan(lanes):
    keys = np.random.default_rng(13).choice([0.0, -0.0, np.nan, 1.0, -1.0], (24, 31))
    (got,) = run(ops.sort(keys, dimension=1), keys, **NETWORK | {"vector_lanes": lanes})
    for line, given in zip(got.view(np.uint64), keys.view(np.uint64), strict=True):
        assert sorted(line.tolist()) == sorted(given.tolist())


def single_lines(dtype, length, region, form):
    """Sort four lines: of random elements; with zeros of either sign; infinite ones; NaN."""
    rng = np.random.default_rng(15)
    if dtype in dtypes.FLOATS:
        keys = rng.standard_normal((4, length)).astype(dtype)
        keys[1, rng.random(length) < 0.3] = 0
        keys[:2, rng.random(length) < 0.2] = -0.0
        keys[2, ::5], keys[2, 1::7] = np.inf, -np.inf
        keys[3, rng.random(length) < 0.3] = np.nan
        keys[3, ::9] = -0.0
    else:
        limits = np.iinfo(dtype)
        keys = rng.integers(limits.min, limits.max, (4, length), dtype, endpoint=True)
    op = ops.sort(keys, dimension=1, region=region)
    (got,) = run(op, keys, **form)
    with_nan = np.isnan(keys).any(axis=1)
    (want,) = stable(keys, descending=region in (">", ">="))
    np.testing.assert_array_equal(got[~with_nan], want[~with_nan])
    np.testing.assert_array_equal(np.signbit(got)[~with_nan], np.signbit(want)[~with_nan])
    bits = f"u{keys.itemsize}"
    np.testing.assert_array_equal(np.sort(got.view(bits)), np.sort(keys.view(bits)))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("dtype", "length", "region"),
    [("float32", 700, "<"), ("uint64", 64, ">="), ("float64", 129, ">"), ("int32", 5, "<=")],
)
def test_single_lines_in_columns(dtype, length, region):
    single_lines(dtype, length, region, COLUMNS)


def quick(item_bytes, **changes):
    lanes = FEATURES.lanes(item_bytes * 8)
    if item_bytes not in FEATURES.compressed_bytes:
        pytest.skip(f"this CPU packs no lanes of {item_bytes} bytes")
    return QUICK | {"vector_lanes": lanes, "splits": 1} | changes


@pytest.mark.costly
@pytest.mark.parametrize(("dtype", "region"), [("float32", "<"), ("float16", ">="), ("int64", ">")])
def test_single_lines_by_partitions(dtype, region):
    form = quick(np.dtype(dtype).itemsize)
    single_lines(dtype, 3001, region, form)


@pytest.mark.parametrize("splits", [1, 5])
def test_partitions_of_any_length(splits):
    rng = np.random.default_rng(16)
    op = ops.sort(("b", "n") if splits == 1 else (1, "n"), dimension=1)
    kernel = build(op, config=config(op, **quick(4, splits=splits)))
    for length in (
        0,
        1,
        2,
        15,
        16,
        17,
        64,
        65,
        129,
        255,
        256,
        257,
        300,
        1000,
        4099,
        40_001,
        300_007,
    ):
        keys = rng.integers(-length, length + 1, (1, length)).astype(np.float32)
        same([kernel(keys)], [np.sort(keys)])


@needs_compress
def test_partitions_of_hard_lines():
    n = 150_000  # more than a megabyte: moved to both ends at first
    rng = np.random.default_rng(17)
    far = np.float64(2.0) ** rng.integers(-300, 300, n)
    sampled = rng.permutation(n).astype(np.float64)
    for start in range(n // 16, n, n // 8):  # where a sample is taken the smallest ones are
        sampled[start : start + 8] *= -1
    lines = {
        "sorted": np.arange(n),
        "reversed": np.arange(n)[::-1],
        "equal": np.full(n, 7),
        "largest": np.full(n, np.nan),
        "up and down": np.minimum(np.arange(n), np.arange(n)[::-1]),
        "few": np.arange(n) * 7919 % 3,
        "mostly equal": np.where(rng.random(n) < 0.9, 0.0, rng.standard_normal(n)),
        "one apart": np.where(np.arange(n) == 99, -1, 1),
        "far apart": far,
        "smallest sampled": sampled,
    }
    keys = np.array(list(lines.values()), np.float64)
    op = ops.sort(keys, dimension=1)
    (got,) = run(op, keys, **quick(8))
    for name, line, want in zip(lines, got, np.sort(keys, axis=1), strict=True):
        np.testing.assert_array_equal(line, want, err_msg=name)


PAIRS = {
    "values": ("<", "float32", ["int32"], 1, 16),
    "descending values": (">=", "int32", ["float32"], 3, 9),
    "places": ("<=", "float32", ["int64"], 3, 8),
    "several": (">", "uint32", ["float16", "bool", "float32"], 1, 8),
}


@pytest.mark.costly
@pytest.mark.parametrize("pair", PAIRS)
def test_partitions_of_keys_with_other_operands(pair):
    region, key, others, splits, rows = PAIRS[pair]
    shape = (1, "n") if splits > 1 else ("b", "n")
    kinds = [TensorType(shape, kind) for kind in (*others[:1], key, *others[1:])]
    op = ops.sort(*kinds, dimension=1, region=f"arg2 {region} arg3")
    form = quick(4, splits=splits, register_tile={"rows": rows})
    kernel = build(op, config=config(op, **form))
    rng = np.random.default_rng(18)
    for length in (0, 1, 16, 31, 33, 129, 250, 257, 1000, 30_011):
        # Many ties; neighbours near and far: tiles narrow and wide.
        numbers = rng.integers(-length, length + 1, (1, length))
        keys = (numbers * 1000 ** rng.integers(0, 3, numbers.shape)).astype(kinds[1].dtype)
        if key == "float32":
            keys[:, rng.random(length) < 0.1] = -0.0
            keys[:, rng.random(length) < 0.1] = 0.0
            keys[:, ::97] = np.inf
        rest = [rng.integers(0, 2**15, keys.shape).astype(kind.dtype) for kind in kinds]
        got = kernel(rest[0], keys, *rest[2:])
        want = stable(keys, rest[0], *rest[2:], descending=region in (">", ">="))
        same(got, [want[1], want[0], *want[2:]])
        np.testing.assert_array_equal(np.signbit(got[1]), np.signbit(want[0]))


@needs_compress
def test_partitions_of_hard_lines_with_values():
    n = 20_000
    rng = np.random.default_rng(19)
    lines = {
        "sorted": np.arange(n),
        "reversed": np.arange(n)[::-1],
        "equal": np.full(n, -7),
        "least": np.full(n, -(2**31)),
        "largest": np.full(n, 2**31 - 1),
        "ends": rng.choice([-(2**31), 2**31 - 1], n),
        "few": np.arange(n) * 7919 % 3,
        "mostly equal": np.where(rng.random(n) < 0.9, 0, rng.integers(-9999, 9999, n)),
        "far apart": 2 ** rng.integers(0, 31, n),
        "any": rng.integers(-(2**31), 2**31 - 1, n),
    }
    keys = np.array(list(lines.values()), np.int32)
    places = np.broadcast_to(np.arange(n, dtype=np.int32), keys.shape).copy()
    got = run(ops.sort(keys, places, dimension=1), keys, places, **quick(4))
    for name, *line in zip(lines, *got, *stable(keys, places), strict=True):
        np.testing.assert_array_equal(line[:2], line[2:], err_msg=name)


@needs_compress
def test_partitions_lose_no_pair_among_nan():
    rng = np.random.default_rng(20)
    keys = rng.choice([0.0, -0.0, np.nan, 1.0, -1.0, np.inf], 5000).astype(np.float32)
    keys[::7].view(np.uint32)[...] |= rng.integers(0, 2**32, 715, np.uint32)
    places = np.arange(5000, dtype=np.int32)
    got, order = run(ops.sort(keys, places, dimension=0), keys, places, **quick(4))
    np.testing.assert_array_equal(np.sort(order), places)
    np.testing.assert_array_equal(got.view(np.uint32), keys[order].view(np.uint32))


@pytest.mark.costly
@pytest.mark.parametrize(("rows", "beside"), [(8, 128), (9, 256), (16, 256), (17, 512)])
def test_scratch_beside_a_tile_has_every_number_that_is_read(rows, beside):
    """Past the last pair numbers have all bits: of 9 x 16 places up to 255."""
    target = make_target({"kind": "llvm", "mcpu": "x86-64-v4"})
    op = ops.sort((1, 5000), TensorType((1, 5000), "int32"), dimension=1)
    form = QUICK | {"register_tile": {"rows": rows}, "vector_lanes": 16, "splits": 1}
    script = RULE.lower(op, target, config(op, **form)).script()
    words = re.findall(r'alloc_buffer\(\(T.int64\((\d+)\),\), "uint32"', script)
    taken = {int(count) for count in words}
    assert {count for count in taken if 16 < count < 5000} == {beside}


@pytest.mark.parametrize("cpu", ["sandybridge", "x86-64-v3", "x86-64-v4"])
def test_the_form_goes_by_length_lines_comparator_and_cpu(cpu):
    target = make_target({"kind": "llvm", "mcpu": cpu})

    def form(shape, dimension, region="<", count=1, dtype="float32"):
        op = ops.sort(*[shape] * count, dimension=dimension, region=region, dtype=dtype)
        return RULE.heuristic(op, target).algorithm

    assert form((1000, 64), 1) == form((64, 1000), 0) == form(("n", 64), 1) == "network"
    assert form((1000, 64), 1, "abs(arg0) < abs(arg1)") == "network"
    assert form((100_000,), 0, dtype="int64", count=2) == "radix"
    assert form((100_000,), 0, dtype="int16") == form((100_000,), 0, dtype="uint8") == "radix"
    assert form((100_000,), 0, "abs(arg0) < abs(arg1)") == "merge"
    with_compress = cpu != "sandybridge"
    by_parts = "quick" if with_compress else "columns"
    assert form((4096,), 0) == form((2, 4096), 1, ">") == form(("n", 4096), 1) == by_parts
    assert form((100_000,), 0) == form(("n",), 0) == ("quick" if with_compress else "radix")
    pairs = "quick" if with_compress else "radix"
    assert form((100_000,), 0, count=2) == form((2, 4096), 1, count=3) == pairs
    assert form((1000, 256), 1, count=2) == ("quick" if with_compress else "network")
    assert form((1000, 64), 1, count=2) == ("quick" if cpu == "x86-64-v3" else "network")
    assert form((1000, 32), 1, count=2) == "network"
    assert form((50,), 0) == form((50,), 0, count=2) == ("quick" if with_compress else "merge")


@pytest.mark.parametrize(
    ("cpu", "tile"), [("x86-64", "float64"), ("x86-64-v3", "uint64"), ("x86-64-v4", "float64")]
)
def test_what_a_network_sorts_floats_as_goes_by_the_size_of_vectors(cpu, tile):
    target = make_target({"kind": "llvm", "mcpu": cpu})
    op = ops.sort((64, 100), dimension=1, dtype="float64")
    config = RULE.heuristic(op, target)
    assert config.algorithm == "network"
    text = RULE.lower(op, target, config).script()
    assert f'alloc_buffer((T.int64({100 * config.vector_lanes}),), "{tile}")' in text


@pytest.mark.costly
@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 16), ("float64", 8), ("float32", 4)])
def test_a_network_of_floats_that_stay_floats(dtype, lanes):
    rng = np.random.default_rng(21)
    keys = rng.choice([0.0, -0.0, 1.0, -1.0, np.inf], (37, 61)).astype(dtype)
    keys[5] = rng.standard_normal(61)
    for axis, region in ((0, "<"), (1, ">=")):
        op = ops.sort(keys, dimension=axis, region=region)
        (got,) = run(op, keys, **NETWORK | {"vector_lanes": lanes})
        (want,) = stable(keys, axis=axis, descending=region == ">=")
        same([got], [want])
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize(
    ("cpu", "dtype", "instruction"),
    [
        ("icelake-server", "int16", "llvm.x86.avx512.mask.compress.v32i16"),
        ("icelake-server", "float32", "llvm.x86.avx512.mask.compress.v16i32"),
        ("x86-64-v3", "float64", "llvm.x86.avx2.permd"),
    ],
)
def test_only_what_no_instruction_packs_takes_a_table(cpu, dtype, instruction):
    target = make_target({"kind": "llvm", "mcpu": cpu})
    op = ops.sort((5000,), dimension=0, dtype=dtype)
    text = RULE.lower(op, target, RULE.heuristic(op, target)).script(show_meta=True)
    assert instruction in text
    assert ("_orders" in text) == (cpu == "x86-64-v3")


@pytest.mark.costly
@pytest.mark.parametrize(
    ("form", "splits"),
    [("radix", 2), ("radix", 5), ("merge", 2), ("merge", 8)],
)
def test_any_number_of_parts(form, splits):
    rng = np.random.default_rng(1)
    kinds = (TensorType((1, "n"), "i16"), TensorType((1, "n"), "i64"))
    op = ops.sort(*kinds, dimension=1, region="<=")
    kernel = build(op, config=config(op, **FORMS[form], splits=splits))
    for length in (1, 3, 8, 100, 5003):
        keys = rng.integers(-300, 300, (1, length)).astype(np.int16)
        places = np.arange(length)[None].copy()
        same(kernel(keys, places), stable(keys, places))


@pytest.mark.costly
@pytest.mark.parametrize("number", range(len(dtypes.FLOATS + dtypes.INTEGERS)))
def test_every_dtype_by_digits(number):
    dtype, region = (dtypes.FLOATS + dtypes.INTEGERS)[number], ("<", ">=")[number % 2]
    rng = np.random.default_rng(2)
    kind = dtypes.numpy_dtype(dtype)
    if dtype in dtypes.FLOATS:
        keys = rng.standard_normal(700).astype(kind)
        keys[::50], keys[7::50] = np.inf, -np.inf
        keys[3::40], keys[5::40] = 0.0, -0.0
    elif dtype == "bool":
        keys = rng.random(700) < 0.5
    else:
        limits = np.iinfo(kind)
        keys = rng.integers(limits.min, limits.max, 700, kind, endpoint=True)
    places = np.arange(700, dtype=np.int32)
    op = ops.sort(keys, places, dimension=0, region=region)
    want = stable(keys, places, descending=region == ">=")
    same(run(op, keys, places, **RADIX), want)


@pytest.mark.parametrize(
    ("form", "region"),
    [("radix", "<="), ("radix", ">"), ("merge", "<"), ("merge", ">=")],
)
def test_zeros_of_either_sign_are_ties(form, region):
    keys = np.array([0.0, -0.0] * 40 + [1.0, -1.0], np.float32)
    places = np.arange(82, dtype=np.int32)
    op = ops.sort(keys, places, dimension=0, region=region)
    got, order = run(op, keys, places, **FORMS[form])
    assert order[1:-1].tolist() == list(range(80))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(keys[order]))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("form", "dtype"),
    [("radix", "float32"), ("radix", "bfloat16"), ("merge", "float64"), ("merge", "float16")],
)
def test_with_nan_the_result_is_a_permutation(form, dtype):
    rng = np.random.default_rng(3)
    keys = rng.standard_normal(3000)
    keys[rng.random(3000) < 0.3] = np.nan
    keys = keys.astype(dtypes.numpy_dtype(dtype))
    places = np.arange(3000, dtype=np.int32)
    op = ops.sort(keys, places, dimension=0, region="<")
    for splits in (1, 4):
        got, order = run(op, keys, places, **FORMS[form], splits=splits)
        assert sorted(order.tolist()) == list(range(3000))
        np.testing.assert_array_equal(got.astype(float), keys[order].astype(float))


@pytest.mark.parametrize("splits", [1, 4])
def test_with_a_comparator_that_is_no_order_the_result_is_a_permutation(splits):
    values = np.arange(1000, dtype=np.int32) * 7919 % 1000
    for region in ("arg0 != arg1", "(arg0 & 5) < (arg1 & 3)"):
        op = ops.sort(values, dimension=0, region=region)
        (got,) = run(op, values, **MERGE, splits=splits)
        assert sorted(got.tolist()) == list(range(1000)), region


@pytest.mark.parametrize("region", ["<", "abs(arg0) <= abs(arg1)"])
def test_sorts_along_a_dim_that_is_not_the_innermost(region):
    rng = np.random.default_rng(4)
    shape = ("a", "n", "b")
    kinds = (TensorType(shape, "f32"), TensorType(shape, "i8"))
    op = ops.sort(*kinds, dimension=1, region=region)
    kernel = build(op, config=config(op, **(RADIX if region == "<" else MERGE)))
    for sizes in ((1, 300, 3), (1, 300, 16), (1, 300, 17), (1, 40, 70), (2, 300, 5)):
        keys = rng.standard_normal(sizes).astype(np.float32)
        values = rng.integers(0, 9, sizes).astype(np.int8)
        order = np.argsort(keys if region == "<" else np.abs(keys), axis=1, kind="stable")
        same(kernel(keys, values), [np.take_along_axis(x, order, 1) for x in (keys, values)])


def test_an_odd_number_of_passes_ends_in_the_result():
    keys = np.random.default_rng(5).integers(0, 1 << 30, (500, 3)).astype(np.int32)
    for axis in (0, 1):
        op = ops.sort(keys, dimension=axis)
        form = {"algorithm": "radix", "register_tile": {"digit_bits": 11}}
        same(run(op, keys, **form), [np.sort(keys, axis=axis)])


def test_sorts_by_any_operand():
    keys = np.random.default_rng(6).permutation(400).astype(np.uint16)
    names = np.arange(400, dtype=np.float64)
    op = ops.sort(names, keys, dimension=0, region="arg2 > arg3")
    assert RULE.heuristic(op, TARGET).algorithm == "radix"
    order = np.argsort(keys)[::-1]
    same(run(op, names, keys), [names[order], keys[order]])


def test_sorts_lexicographically_by_three_operands():
    rng = np.random.default_rng(7)
    columns = [rng.integers(0, 6, 2000).astype(kind) for kind in ("int8", "float32", "uint64")]
    region = "arg0 < arg1 or (arg0 == arg1 and (arg2 > arg3 or (arg2 == arg3 and arg4 < arg5)))"
    op = ops.sort(*columns, dimension=0, region=region)
    order = np.lexsort((columns[2], -columns[1], columns[0]))
    same(run(op, *columns), [column[order] for column in columns])


@pytest.mark.costly
@pytest.mark.parametrize("pattern", ["sorted", "reversed", "equal", "runs", "few"])
@pytest.mark.parametrize("region", ["<", "arg0 * 1 < arg1"])
def test_patterns(pattern, region):
    n = 70_000  # long enough for all cores
    values = {
        "sorted": np.arange(n),
        "reversed": np.arange(n)[::-1],
        "equal": np.full(n, 7),
        "runs": np.arange(n) % 1000,
        "few": np.arange(n) * 7919 % 3,
    }[pattern].astype(np.int32)
    places = np.arange(n, dtype=np.int32)
    op = ops.sort(values, places, dimension=0, region=region)
    assert RULE.heuristic(op, TARGET).splits > 1 or RULE.heuristic(op, TARGET).parallel
    same(run(op, values, places), stable(values, places))


def test_empty_and_single_lines_are_unchanged():
    for shape in ((0,), (1,), (3, 0), (0, 3), (3, 1)):
        op = ops.sort(tuple("abc"[: len(shape)]), dimension=len(shape) - 1)
        values = np.ones(shape, np.float32)
        same(run(op, values), [values])
    assert run(ops.sort((0, 4), dimension=0), np.ones((0, 4), np.float32))[0].shape == (0, 4)


def test_lines_of_several_megabytes():
    keys = np.random.default_rng(8).standard_normal(3_000_017, np.float32)
    same(run(ops.sort(keys, dimension=0, region=">"), keys), [np.sort(keys)[::-1]])


def test_the_reference_agrees_on_narrow_floats_in_a_region():
    keys = np.random.default_rng(9).standard_normal(60).astype(ml_dtypes.bfloat16)
    op = ops.sort(keys, dimension=0, region="arg0 * arg0 < arg1 * arg1")
    want = registry.find("sort").reference(op, {"operand0": keys})
    same(run(op, keys), want.values())


REFUSED = {
    "algorithm": (
        {"algorithm": "bogo"},
        "algorithm is 'bogo'; expected one of radix, merge, network, columns, quick",
    ),
    "digit": (
        {**RADIX, "register_tile": {"digit_bits": 17}},
        r"register_tile\['digit_bits'\] is 17; expected 1 to 16",
    ),
    "run": ({**MERGE, "register_tile": {}}, r"register_tile\['run'\] is None; expected 1 to 64"),
    "splits": ({**RADIX, "splits": 0}, "splits is 0; expected a number from 1"),
    "splits of merges": ({**MERGE, "splits": 3}, "splits is 3; expected a power of two"),
    "lanes": ({**MERGE, "vector_lanes": 3}, "vector_lanes is 3; expected a power of two"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_a_config(case):
    changes, message = REFUSED[case]
    op = ops.sort((1000,), dimension=0)
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, TARGET, config(op, **changes))


def test_refuses_digits_for_other_comparators_and_parts_of_strewn_lines():
    op = ops.sort((1000,), dimension=0, region="abs(arg0) < abs(arg1)")
    with pytest.raises(ScheduleError, match="'radix' takes a plain comparison"):
        RULE.lower(op, TARGET, config(op, **RADIX))
    op = ops.sort((1000, 2), dimension=0)
    with pytest.raises(ScheduleError, match="splits need the sorted dim to be the innermost"):
        RULE.lower(op, TARGET, config(op, **RADIX, splits=2))
    with pytest.raises(ScheduleError, match="'network' takes no splits"):
        RULE.lower(op, TARGET, config(op, **NETWORK, splits=2))
    with pytest.raises(ScheduleError, match="'columns' needs one operand of 4 bytes or 8, a plain"):
        RULE.lower(op, TARGET, config(op, algorithm="columns"))
    op = ops.sort((1000,), dimension=0)
    with pytest.raises(ScheduleError, match="'columns' takes no splits"):
        RULE.lower(op, TARGET, config(op, algorithm="columns", splits=2))
    old = make_target({"kind": "llvm", "mcpu": "sandybridge"})
    with pytest.raises(
        ScheduleError,
        match=r"'quick' needs .* keys of a size that the CPU packs, with other operands",
    ):
        RULE.lower(op, old, config(op, **QUICK))
    op = ops.sort(("n",), dimension=0)
    with pytest.raises(ScheduleError, match="'network' needs a static length"):
        RULE.lower(op, TARGET, config(op, **NETWORK, splits=1))


def test_applies_to_sort_on_a_cpu():
    assert RULE.applies(ops.sort((4,), dimension=0), TARGET) is None
    assert "is not Sort" in RULE.applies(ops.topk((4,), k=1, dimension=0), TARGET)
