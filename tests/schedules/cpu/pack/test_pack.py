"""The CPU kernels of pack and unpack: all layouts, types and edges, and what they refuse."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import CallError, ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.schedules.cpu.pack.pack_rule import CpuPack
from tvm_iree_ext.targets.names import make_target

RULE = CpuPack()
RNG = np.random.default_rng(5)
LLVM = make_target("llvm")


def numbered(shape, dtype="float32"):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def check(source, **attributes):
    """Pack by a kernel, compare with the reference, and unpack again; the packed array."""
    op = ops.pack(source, **{"padding_value": -1.0, **attributes})
    want = registry.find("pack").reference(op, {"input": source})["result"]
    packed = build(op)(source)
    np.testing.assert_array_equal(packed, want)
    tiling = {k: v for k, v in attributes.items() if k not in ("padding_value", "output_shape")}
    back = build(ops.unpack(packed, source.shape, **tiling))(packed)
    np.testing.assert_array_equal(back, source)
    return packed


# Around vectors of 16 lanes, squares of 16 and of 8, and their tails.
@pytest.mark.costly
@pytest.mark.parametrize(
    ("shape", "several"),
    [
        ((1, 1), [(8, 32), (1, 5)]),
        ((16, 16), [(16, 16), (7, 1)]),
        ((67, 41), [(8, 32), (16, 16), (1, 5), (7, 1)]),
    ],
)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_any_shape_in_any_order(shape, several, order):
    for tiles in several:
        for positions in ((0, 1), (1, 0)):
            check(
                numbered(shape),
                inner_dims_pos=positions,
                inner_tiles=tiles,
                outer_dims_perm=order,
            )


@pytest.mark.costly
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)])
def test_some_dims_without_tiles(order):
    source = numbered((5, 20, 18))
    for dim in range(3):
        check(source, inner_dims_pos=[dim], inner_tiles=[4], outer_dims_perm=order)
    check(source, inner_dims_pos=[], inner_tiles=[], outer_dims_perm=order)


def test_long_runs_across_tasks():
    check(numbered((3, 5000)), inner_dims_pos=[0], inner_tiles=[1], outer_dims_perm=[0, 1])
    check(numbered((150, 131)), inner_dims_pos=[], inner_tiles=[], outer_dims_perm=[1, 0])
    check(numbered((70000,)), inner_dims_pos=[0], inner_tiles=[48])


TYPES = [*dtypes.FLOATS, *dtypes.INTEGERS]


# Each type in rows or in a transpose, and each width in both.
@pytest.mark.costly
@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_bit_for_bit(dtype):
    positions = [[0, 1], [1, 0]][TYPES.index(dtype) % 2]
    kind = dtypes.numpy_dtype(dtype)
    bits = RNG.integers(0, 2 if dtype == "bool" else 256, (21, 35 * kind.itemsize), "uint8")
    source = bits.view(kind)
    tiling = {"inner_dims_pos": positions, "inner_tiles": [8, 16]}
    passed = 1.0 if dtype in dtypes.FLOATS else True if dtype == "bool" else 1
    op = ops.pack(source, **tiling, padding_value="operand")
    packed = build(op)(source, passed)
    want = registry.find("pack").reference(op, {"input": source, "padding_value": passed})
    assert packed.tobytes() == want["result"].tobytes()
    back = build(ops.unpack(packed, source.shape, **tiling))(packed)
    assert back.tobytes() == source.tobytes()


@pytest.mark.parametrize("value", [0.1, -np.inf, np.nan, 3e38, 1.00390625, 1.01171875, -0.0])
def test_a_padding_operand_is_rounded_as_numpy_rounds(value):
    source = np.zeros(1, ml_dtypes.bfloat16)
    op = ops.pack(source, inner_dims_pos=[0], inner_tiles=[2], padding_value="operand")
    got, want = build(op)(source, value)[0, 1], np.float32(value).astype(ml_dtypes.bfloat16)
    assert got == want or (np.isnan(got) and np.isnan(want))


@pytest.mark.parametrize("value", [2**64 - 1, 2**63, 5])
def test_a_large_unsigned_padding_value(value):
    source = np.zeros(1, np.uint64)
    op = ops.pack(source, inner_dims_pos=[0], inner_tiles=[2], padding_value=value)
    assert int(build(op)(source)[0, 1]) == value


def test_one_kernel_serves_every_extent():
    tiling = {"inner_dims_pos": [1, 0], "inner_tiles": [16, 8]}
    pack = build(ops.pack(("n", "m"), **tiling, padding_value=-1.0))
    unpack = build(ops.unpack(("a", "b", 16, 8), ("n", "m"), **tiling))
    for shape in ((1, 1), (8, 16), (9, 15), (100, 70)):
        source = numbered(shape)
        packed = pack(source)
        op = ops.pack(source, **tiling, padding_value=-1.0)
        want = registry.find("pack").reference(op, {"input": source})["result"]
        np.testing.assert_array_equal(packed, want)
        np.testing.assert_array_equal(unpack(packed, out=np.zeros_like(source)), source)


@pytest.mark.parametrize("positions", [[0, 1], [1, 0]])
def test_tiles_known_at_call_time(positions):
    tiling = {"inner_dims_pos": positions, "inner_tiles": ["s", "t"]}
    pack = build(ops.pack(("n", "m"), **tiling, padding_value=7.0))
    unpack = build(ops.unpack(("a", "b", "s", "t"), ("n", "m"), **tiling))
    source = numbered((20, 45))
    for tiles in ((8, 16), (5, 7), (1, 1), (64, 64)):
        static = ops.pack(source, inner_dims_pos=positions, inner_tiles=tiles, padding_value=7.0)
        want = registry.find("pack").reference(static, {"input": source})["result"]
        packed = pack(source, out=np.zeros_like(want))
        np.testing.assert_array_equal(packed, want)
        np.testing.assert_array_equal(unpack(packed, out=np.zeros_like(source)), source)


def test_a_tile_may_be_as_long_as_an_extent_of_the_input():
    kernel = build(
        ops.pack(ops.TensorType((5, "n"), "float32"), inner_dims_pos=[0], inner_tiles=["n"],
                 padding_value=7.0)
    )  # fmt: skip
    for n in (1, 2, 5, 9):
        x = np.arange(5 * n, dtype="float32").reshape(5, n)
        rows = -(-5 // n) * n
        padded = np.pad(x, ((0, rows - 5), (0, 0)), constant_values=7)
        np.testing.assert_array_equal(kernel(x), padded.reshape(-1, n, n).swapaxes(1, 2))
    with pytest.raises(CallError, match="pack: a result has tiles of extent 0"):
        kernel(np.empty((5, 0), "float32"))


def test_dynamic_tiles_that_do_not_divide_are_filled_with_zeros():
    source = numbered((5, 7)) + 1
    op = ops.pack(("n", "m"), inner_dims_pos=[0, 1], inner_tiles=[4, 4])
    packed = build(op)(source)
    assert packed.sum() == source.sum()


def test_more_tiles_than_needed_are_padded():
    tiling = {"inner_dims_pos": [0, 1], "inner_tiles": [4, 4]}
    op = ops.pack((5, 7), (3, 4, 4, 4), **tiling, padding_value=2.0)
    source = numbered((5, 7))
    want = registry.find("pack").reference(op, {"input": source})["result"]
    packed = build(op)(source)
    np.testing.assert_array_equal(packed, want)
    assert (packed[2] == 2).all()
    back = build(ops.unpack(packed, (5, 7), **tiling))(packed)
    np.testing.assert_array_equal(back, source)


def test_shapes_that_do_not_fit_are_refused_before_anything_is_written():
    tiling = {"inner_dims_pos": [0], "inner_tiles": [4]}
    unpack = build(ops.unpack(("a", 4), ("n",), **tiling))
    packed, out = numbered((2, 4)), np.full(9, 5.0, "float32")
    with pytest.raises(CallError, match=r"input axis 0 has extent 2; expected at least 3"):
        unpack(packed, out=out)
    with pytest.raises(CallError, match="the result's extent n follows from no argument"):
        unpack(packed)
    with pytest.raises(CallError, match="result has rank 2; expected 1"):
        unpack(packed, out=np.zeros((3, 3), "float32"))
    pack = build(ops.pack(("n",), ("b", 4), **tiling, padding_value=0.0))
    with pytest.raises(CallError, match=r"result axis 0 has extent 2; expected at least 3"):
        pack(out, out=packed)
    assert (out == 5).all()
    assert (packed == numbered((2, 4))).all()


def test_the_form_follows_the_innermost_dims():
    def algorithm(**attributes):
        op = ops.pack((64, 64), **attributes)
        config = RULE.heuristic(op, LLVM)
        return config.algorithm, config.vector_lanes

    lanes = RULE.heuristic(ops.pack((64, 64), inner_dims_pos=[1], inner_tiles=[8]), LLVM)
    assert algorithm(inner_dims_pos=[0, 1], inner_tiles=[8, 32]) == ("rows", lanes.vector_lanes)
    assert algorithm(inner_dims_pos=[1, 0], inner_tiles=[32, 8]) == ("transpose", 8)
    assert algorithm(inner_dims_pos=[0, 1], inner_tiles=[8, 1]) == ("transpose", 8)
    assert algorithm(inner_dims_pos=[], inner_tiles=[])[0] == "rows"


def test_a_small_array_is_packed_by_the_calling_thread():
    tiling = {"inner_dims_pos": [0, 1], "inner_tiles": [8, 32]}
    assert not RULE.heuristic(ops.pack((64, 64), **tiling), LLVM).parallel
    assert RULE.heuristic(ops.pack((640, 640), **tiling), LLVM).parallel


def test_squares_are_transposed_in_registers():
    op = ops.pack((64, 64), inner_dims_pos=[1, 0], inner_tiles=[16, 8])
    module = RULE.lower(op, LLVM, RULE.heuristic(op, LLVM))
    cpu_pipeline.register()
    compiled = tvm.compile(module, target=LLVM, tir_pipeline=cpu_pipeline.CPU_PIPELINE)
    text = compiled.mod.inspect_source("ll")
    assert len(re.findall(r"shufflevector <8 x i32>", text)) >= 24
    assert "TVMBackendAllocWorkspace" not in text


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"algorithm": "transpose"}, "algorithm is 'transpose'; expected 'rows'"),
        ({"vector_lanes": 12}, "vector_lanes is 12; expected a power of two"),
        ({"workgroup_tile": {"run": 8}}, r"workgroup_tile\['tiles'\] is None; expected a number"),
        ({"workgroup_tile": {"run": 0, "tiles": 1}}, r"workgroup_tile\['run'\] is 0"),
    ],
)
def test_refuses_a_config_that_does_not_fit(changed, message):
    op = ops.pack((64, 64), inner_dims_pos=[0, 1], inner_tiles=[8, 32])
    config = replace(RULE.heuristic(op, LLVM), **changed)
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, LLVM, config)


def test_refuses_a_square_that_registers_do_not_hold():
    op = ops.pack((64, 64), inner_dims_pos=[1, 0], inner_tiles=[32, 32])
    config = replace(RULE.heuristic(op, LLVM), vector_lanes=32)
    with pytest.raises(ScheduleError, match="vector_lanes is 32; expected a power of two up to 16"):
        RULE.lower(op, LLVM, config)
