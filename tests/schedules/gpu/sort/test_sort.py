"""Sort on GPUs: networks and merges on the simulator, beside NumPy; configs that do not fit."""

import numpy as np
import pytest
from tvm import ir

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.codegen.gpu.cuda import nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.schedules.gpu.sort.sort_rule import GpuSort
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.gpu import chip_names, gpu_chip
from tvm_iree_ext.targets.names import make_target

MERGE = LoweringConfig(algorithm="merge", workgroup_tile={"elements": 16, "lanes": 64})
RADIX_TARGETS = ("cuda:sm_90a", "cuda:sm_80", "rocm:gfx942", "rocm:gfx1100")
TARGETS = ("cuda:sm_80", "rocm:gfx942")


def check(op, target, operands, config=None):
    done = simulate_op(op, target, operands, config).check()
    want = ext.registry.find("sort").reference(op, operands)
    for name, array in want.items():
        np.testing.assert_array_equal(done.results[name], array)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dimension", [0, 1])
def test_lines_of_any_dim_are_sorted_stably(dimension, target):
    rng = np.random.default_rng(dimension)
    keys = rng.integers(0, 9, (5, 19)).astype(np.float16)
    payload = np.arange(95, dtype=np.int64).reshape(5, 19)
    op = ops.sort(keys, payload, dimension=dimension, region=">")
    check(op, target, {"operand0": keys, "operand1": payload})


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("region", ["<", "abs(arg0) < abs(arg1)"])
def test_long_lines_are_merged(region, target):
    keys = np.random.default_rng(3).integers(-6, 6, (2, 75)).astype(np.int32)
    payload = np.arange(150, dtype=np.int8).reshape(2, 75)
    op = ops.sort(keys, payload, dimension=1, region=region)
    check(op, target, {"operand0": keys, "operand1": payload}, MERGE)


def test_lengths_may_be_known_at_the_call_only():
    op = ops.sort(TensorType(("n",), "int32"), dimension=0)
    for length in (1, 16, 17, 70):
        keys = np.random.default_rng(length).integers(-99, 99, length).astype(np.int32)
        check(op, "cuda:sm_80", {"operand0": keys}, MERGE)


def in_order(op, operands):
    """The operands by NumPy's stable sort, with NaNs last and zeros of both signs equal."""
    assert op.order is not None
    keys = operands[f"operand{op.order.operand}"].astype(np.float64)
    order = np.argsort(-keys if op.order.descending else keys, axis=op.dimension, kind="stable")
    return [np.take_along_axis(array, order, op.dimension) for array in operands.values()]


def check_digits(op, target, operands, config):
    done = simulate_op(op, target, operands, config).check()
    for number, want in enumerate(in_order(op, operands)):
        got = done.results[f"result{number}"]
        assert got.tobytes() == np.ascontiguousarray(want).tobytes()


def keys_with_ties(rng, shape, dtype):
    """Few different keys, zeros of both signs, infinities and NaNs of both signs among them."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    keys = rng.integers(0 if dtype.startswith("u") else -30, 30, shape).astype(dtype)
    if dtype.startswith("float"):
        special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf], dtype)
        keys = np.where(rng.random(shape) < 0.5, rng.choice(special, shape), keys)
    return keys


@pytest.mark.costly
@pytest.mark.parametrize("target", RADIX_TARGETS)
@pytest.mark.parametrize("elements", [64, 256])
@pytest.mark.parametrize(
    ("dtype", "region"),
    [
        ("float32", "<"), ("float32", ">="), ("float16", ">"), ("int8", "<="), ("uint16", ">"),
        ("bool", "<"),
    ],
)  # fmt: skip
def test_lines_are_sorted_stably_by_digits(dtype, region, elements, target):
    """In one tile, or in several; with a payload that tells ties apart."""
    rng = np.random.default_rng(11)
    keys = keys_with_ties(rng, (2, 150), dtype)
    payload = np.arange(300, dtype=np.int32).reshape(2, 150)
    op = ops.sort(keys, payload, dimension=1, region=region)
    config = LoweringConfig("radix", workgroup_tile={"elements": elements, "lanes": 64})
    check_digits(op, target, {"operand0": keys, "operand1": payload}, config)


@pytest.mark.costly
@pytest.mark.parametrize("target", RADIX_TARGETS)
def test_several_payloads_follow_keys_that_stand_anywhere(target):
    rng = np.random.default_rng(12)
    keys = keys_with_ties(rng, (130, 2), "int16")
    before, after = (rng.integers(0, 99, (130, 2)).astype(dtype) for dtype in ("int64", "float64"))
    op = ops.sort(before, keys, after, dimension=0, region="arg2 > arg3")
    operands = {"operand0": before, "operand1": keys, "operand2": after}
    config = LoweringConfig("radix", workgroup_tile={"elements": 64, "lanes": 64})
    check_digits(op, target, operands, config)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("target", "dtype"), [("cuda:sm_80", "float32"), ("rocm:gfx1100", "int64")]
)
def test_elements_of_a_line_take_the_place_of_counters_where_lanes_have_many(target, dtype):
    keys = keys_with_ties(np.random.default_rng(15), (2, 300), dtype)
    payload = np.arange(600, dtype=np.int8).reshape(2, 300)
    config = LoweringConfig("radix", workgroup_tile={"elements": 512, "lanes": 32})
    op = ops.sort(keys, payload, dimension=1)
    check_digits(op, target, {"operand0": keys, "operand1": payload}, config)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_keys_of_64_bits_have_eight_digits(dtype):
    rng = np.random.default_rng(13)
    keys = rng.integers(0, 2**53, 70).astype(dtype)
    if not dtype.startswith("u"):
        keys[::2] = -keys[::2]
    config = LoweringConfig("radix", workgroup_tile={"elements": 32, "lanes": 32})
    op = ops.sort(keys, dimension=0, region=">")
    check_digits(op, "cuda:sm_90a", {"operand0": keys}, config)


@pytest.mark.skipif(bool(nvrtc_obstacle()), reason=nvrtc_obstacle())
@pytest.mark.long
def test_keys_of_64_bits_compile_for_cuda():
    """Constants of more than 63 bits have no form of their own in TVM."""
    target, functions = make_target("cuda:sm_80"), {}
    config = LoweringConfig("radix", workgroup_tile={"elements": 32, "lanes": 32})
    for dtype in ("int64", "uint64", "float64"):
        for name, region in (("rising", "<"), ("falling", ">")):
            op = ops.sort(TensorType((70,), dtype), dimension=0, region=region)
            (function,) = choose(op, target).lower(op, target, config).functions.values()
            name = f"{dtype}_{name}"
            functions[name] = function.with_attr("global_symbol", name)
    assert compile_device(ir.IRModule(functions), target).ptx.count(".entry ") >= len(functions)


@pytest.mark.costly
@pytest.mark.parametrize("length", [0, 1, 64, 65, 200])
def test_digits_take_lengths_that_are_known_at_the_call_only(length):
    op = ops.sort(TensorType(("n",), "int16"), dimension=0)
    target = make_target("cuda:sm_80")
    assert choose(op, target).heuristic(op, target).algorithm == "radix"
    keys = np.random.default_rng(length).integers(-999, 999, length).astype(np.int16)
    config = LoweringConfig("radix", workgroup_tile={"elements": 64, "lanes": 32})
    check_digits(op, "cuda:sm_80", {"operand0": keys}, config)


@pytest.mark.costly
@pytest.mark.parametrize("target", ["cuda:sm_90a", "rocm:gfx942"])
def test_many_tiles_are_summed_by_workgroups(target):
    keys = np.random.default_rng(14).integers(0, 255, 5000).astype(np.uint8)
    config = LoweringConfig("radix", workgroup_tile={"elements": 64, "lanes": 64})
    op = ops.sort(keys, dimension=0)
    check_digits(op, target, {"operand0": keys}, config)


@pytest.mark.parametrize("config", [None, MERGE])
def test_nan_goes_last_and_nothing_is_lost(config):
    keys = np.random.default_rng(5).standard_normal(37).astype(np.float32)
    keys[[3, 20, 36]] = np.nan
    op = ops.sort(keys, dimension=0, region=">=")
    done = simulate_op(op, "rocm:gfx1100", {"operand0": keys}, config).check()
    np.testing.assert_array_equal(done.results["result0"], -np.sort(-keys))


def test_a_comparator_that_is_no_order_gives_a_permutation():
    keys = np.arange(90, dtype=np.int32)
    op = ops.sort(keys, dimension=0, region=lambda a, b: (a * 7 + b * 3) % 5 < 2)
    done = simulate_op(op, "cuda:sm_80", {"operand0": keys}, MERGE).check()
    np.testing.assert_array_equal(np.sort(done.results["result0"]), keys)


def test_wide_comparators_have_smaller_tiles():
    keys = [TensorType((2, 3000), "int64")] * 3
    region = "arg0 < arg1 or (arg0 == arg1 and (arg2 < arg3 or (arg2 == arg3 and arg4 < arg5)))"
    op = ops.sort(*keys, dimension=1, region=region)
    for name in ("cuda:sm_80", "rocm:gfx942"):
        target = make_target(name)
        rule = choose(op, target)
        assert rule.lower(op, target, rule.heuristic(op, target))


@pytest.mark.parametrize("chip", chip_names())
@pytest.mark.parametrize(
    "kinds", [("uint8",), ("float32", "int32"), ("float64", "int64"), ("bool", "int8", "int64")]
)
def test_tiles_of_digits_fit_every_chip(kinds, chip):
    target = make_target(f"{gpu_chip(chip).kind}:{chip}")
    for shape in ((1 << 24,), (3000,), ("n",), (64, 9000)):
        op = ops.sort(*(TensorType(shape, kind) for kind in kinds), dimension=len(shape) - 1)
        config = GpuSort().heuristic(op, target)
        assert config.algorithm == "radix"
        GpuSort().shape(op, target, GpuSort().check(config))


def test_lines_whose_places_have_no_number_are_refused():
    with pytest.raises(ScheduleError, match="length is 2147483653"):
        ext.build(ops.sort(TensorType((2**31 + 5,), "int8"), dimension=0), "cuda:sm_80")


@pytest.mark.parametrize(
    ("tile", "algorithm", "match"),
    [
        ({"elements": 48, "lanes": 32}, "merge", "elements.*is 48"),
        ({"elements": 64, "lanes": 33}, "merge", "lanes.*is 33"),
        ({"elements": 64, "lanes": 32}, "network", "does not fit 64"),
        ({"elements": 1 << 20, "lanes": 32}, "merge", "bytes; there are"),
        ({"elements": 4096, "lanes": 32}, "radix", "has 128 of 4096 elements; expected 1 to 32"),
        ({"elements": 32, "lanes": 64}, "radix", "has 0.5 of 32 elements"),
        ({"elements": 96 * 64, "lanes": 96}, "radix", "elements.*is 6144"),
        ({"elements": 128, "lanes": 96}, "radix", "96 lanes are no power of two"),
        ({"elements": 8192, "lanes": 1024}, "radix", "tile and counters are"),
    ],
)
def test_configs_that_do_not_fit_are_refused(tile, algorithm, match):
    op = ops.sort(TensorType((300,), "float32"), dimension=0)
    config = LoweringConfig(algorithm=algorithm, workgroup_tile=tile)
    with pytest.raises(ScheduleError, match=match):
        ext.build(op, "cuda:sm_80", config)


def test_a_comparator_of_another_kind_has_no_digits():
    op = ops.sort(TensorType((300,), "float32"), dimension=0, region="abs(arg0) < abs(arg1)")
    config = LoweringConfig("radix", workgroup_tile={"elements": 64, "lanes": 64})
    with pytest.raises(ScheduleError, match="'radix' needs a plain comparison"):
        ext.build(op, "cuda:sm_90a", config)
