"""The CPU kernels of map_load and map_store: rows that are copied, tiled, padded, evaluated."""

import dataclasses
import itertools

import numpy as np
import pytest

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.schedules.cpu.mapped_rule import CpuMapped
from tvm_iree_ext.targets.names import make_target

RNG = np.random.default_rng(13)
TARGET = make_target("llvm")


def check(op, *arguments, kernel=None):
    """Run a kernel inside a guarded array, compare with the reference; returns the result."""
    operands = dict(zip((o.name for o in op.signature.arguments), arguments, strict=True))
    (want,) = registry.find(op.name).reference(op, operands).values()
    guarded = np.full(want.nbytes + 256, 99, "uint8")
    out = guarded[128:-128].view(want.dtype).reshape(want.shape)
    (kernel or build(op))(*arguments, out=out)
    np.testing.assert_array_equal(out, want)
    assert (guarded[:128] == 99).all()
    assert (guarded[-128:] == 99).all()
    return out


def configured(op, **changes):
    return build(op, config=dataclasses.replace(CpuMapped().heuristic(op, TARGET), **changes))


def numbers(*shape, dtype="float32"):
    return RNG.integers(0, 90, shape).astype(dtype)


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["rows", "columns"])
@pytest.mark.parametrize(
    ("shape", "region"),
    [
        ((31, 33), "arg1, arg0, 7"),  # transposed
        ((64, 70), "arg0 - 3, arg1 - 5, 7"),  # padded
        ((64, 70), "arg1 - 40, arg0 - 30, 7"),  # both
        ((16, 30), "39 - arg0, 69 - 2 * arg1, 7"),  # flipped, every second
        ((30, 20), "arg0, 3 * arg1 - 10, 7"),
        ((7, 9), "arg0 + 1000, arg1, 7"),  # all of it outside
        ((5, 6, 7), "arg2 + arg0, arg1 * 7, 7"),  # two dims on one axis
        ((50, 9), "arg0 * arg1 - 5, arg0 // 2 + arg1 % 3, 7"),  # not affine
    ],
)
def test_places_of_every_kind(shape, region, algorithm):
    source = numbers(40, 60)
    splits = 3 if (algorithm == "rows") == (shape[0] % 2 == 0) else 1
    op = ops.map_load(source, shape, region)
    kernel = configured(op, algorithm=algorithm, splits=splits, parallel=splits > 1)
    check(op, source, kernel=kernel)


# Each number of rows with whole tiles of columns and with a rest.
@pytest.mark.costly
@pytest.mark.parametrize(
    ("rows", "several"),
    [(1, (1, 33)), (31, (31, 32)), (32, (31, 32, 65)), (33, (1, 33)), (65, (32, 65))],
)
def test_tiles_of_a_transpose_at_any_size(rows, several):
    for columns in several:
        source = numbers(rows, columns)
        check(ops.map_load(source, (columns, rows), "arg1, arg0, 0"), source)
        init = numbers(columns, rows)
        check(ops.map_store(source, init, "arg1, arg0, 1 > 0"), source, init)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
def test_tiles_inside_and_outside(dtype):
    source = numbers(80, 120, dtype=dtype)
    load = ops.map_load(source, (100, 3, 90), "arg2 + arg1 - 20, arg0 + 5, 9")
    check(load, source)
    stored = numbers(100, 90, dtype=dtype)
    store = ops.map_store(stored, source, "arg1 - 20, arg0 + 5, 1 > 0")
    check(store, stored, source)
    flipped = ops.map_load(source, (100, 90), "79 - arg1, arg0, 9")
    check(flipped, source)


def test_an_interval_at_every_offset():
    source = numbers(2, 6)
    for shift, scale in itertools.product((-40, -7, -1, 0, 1, 5, 6, 40), (-3, -1, 1, 2)):
        op = ops.map_load(source, (2, 9), f"arg0, {scale} * arg1 + {shift}, 8")
        check(op, source)


@pytest.mark.parametrize("mask", ["1 > 0", "arg1 > 2", "(arg0 + arg1) % 2 == 0"])
def test_masked_stores(mask):
    source, init = numbers(40, 30), numbers(50, 45)
    op = ops.map_store(source, init, f"arg0 + 2, 40 - arg1, {mask}")
    check(op, source, init)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float64", "uint64"])
def test_any_type_moves_bit_by_bit(dtype):
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    source = RNG.integers(0, 2, (20, 7)).astype(kind)
    padding = "1 > 0" if dtype == "bool" else "1"
    op = ops.map_load(source, (9, 25), f"arg1 - 3, arg0 - 1, {padding}")
    check(op, source)


def test_a_nan_and_a_negative_zero_keep_their_bits():
    source = np.array([0x7FC12345, 0x80000000, 0x7F800001], "uint32").view("float32")
    got = build(ops.map_load(source, (3,), "2 - arg0, 0.0"))(source)
    np.testing.assert_array_equal(got.view("uint32"), source.view("uint32")[::-1])


def test_one_kernel_serves_every_size():
    load = ops.map_load(("n", "m"), ("m", "n", 2), "arg1 - arg2, arg0, 5")
    store = ops.map_store(("n", "m"), ("k", "m"), "k - 1 - arg0, arg1, arg1 < n")
    kernels = build(load), build(store)
    for n, m, k in ((1, 1, 1), (40, 33, 64), (7, 300, 5), (300, 2, 310)):
        source, init = numbers(n, m), numbers(k, m)
        check(load, source, kernel=kernels[0])
        check(store, source, init, kernel=kernels[1])


def test_a_large_reshape_is_a_copy():
    source = RNG.standard_normal((1000, 1000)).astype("float32")
    op = ops.map_load(source, (1_000_000,), "arg0 // 1000, arg0 % 1000, 0.0")
    np.testing.assert_array_equal(build(op)(source), source.ravel())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "batch"}, "algorithm is 'batch'; expected one of rows, columns"),
        ({"splits": 0}, "splits is 0; expected a number from 1"),
        ({"workgroup_tile": {"rows": 4}}, r"workgroup_tile\['columns'\] is None; expected a num"),
    ],
)
def test_refuses_configs_that_do_not_fit(changes, message):
    with pytest.raises(ScheduleError, match=message):
        configured(ops.map_load((3, 4), TensorType((4, 3), "float32"), "arg1, arg0, 0"), **changes)
