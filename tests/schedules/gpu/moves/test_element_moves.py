"""Ops that move elements, on both vendors' GPUs."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from tvm import s_tir

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.inspection.inspected_kernel import inspect_op
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.ops import vector_ext
from tvm_iree_ext.registry import find
from tvm_iree_ext.schedules.gpu.moves.element_moves import root_blocks
from tvm_iree_ext.schedules.gpu.pack_rule import GpuPack
from tvm_iree_ext.schedules.gpu.sblocks.access_runs import transposed_dims
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target

TARGETS = ("cuda:sm_80", "rocm:gfx942", "rocm:gfx1100")
LAYOUT = (
    "#iree_vector_ext.nested_layout<subgroup_tile = [2], batch_tile = [1], outer_tile = [1],"
    " thread_tile = [8], element_tile = [4], subgroup_strides = [1], thread_strides = [1]>"
)


def moved(op, target, **operands):
    """The result, which is the reference's."""
    return moved_to("result", op, target, **operands)


def moved_to(result, op, target, **operands):
    """The result of that name, likewise."""
    done = simulate_op(op, target, operands).check()
    np.testing.assert_array_equal(
        done.results[result], find(op.name).reference(op, operands)[result]
    )
    return done.simulations


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(1, 1), (37, 61), (128, 64)])
def test_pack_and_back(target, shape):
    x = np.arange(np.prod(shape), dtype="float16").reshape(shape)
    packing = {"inner_dims_pos": [0, 1], "inner_tiles": [16, 8]}
    moved(ops.pack(("m", "n"), dtype="float16", padding_value=-1.0, **packing), target, input=x)
    packed = np.zeros((-(-shape[0] // 16), -(-shape[1] // 8), 16, 8), "float16")
    packed[...] = np.arange(packed.size).reshape(packed.shape)
    op = ops.unpack(packed.shape, shape, dtype="float16", **packing)
    moved(op, target, input=packed)


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
def test_tiles_of_extents_that_a_call_tells(target):
    x = np.arange(13 * 7, dtype="float32").reshape(13, 7)
    tiles = {"inner_dims_pos": [0, 1], "inner_tiles": ["t", "u"]}
    there = ops.pack(("m", "n"), padding_value="operand", **tiles)
    operands = {"input": x, "padding_value": -1.0}
    done = simulate_op(there, target, operands, extents={"t": 4, "u": 2}).check()
    packed = done.results["result"]
    plain = ops.pack(x, inner_dims_pos=[0, 1], inner_tiles=[4, 2], padding_value="operand")
    np.testing.assert_array_equal(packed, find(plain.name).reference(plain, operands)["result"])
    back = ops.unpack(("a", "b", "t", "u"), ("m", "n"), **tiles)
    done = simulate_op(back, target, {"input": packed}, extents={"m": 13, "n": 7}).check()
    np.testing.assert_array_equal(done.results["result"], x)


def test_dims_that_change_places_may_have_others_between():
    x = np.arange(40 * 3 * 17, dtype="uint8").reshape(40, 3, 1, 17)
    tiles = {"inner_dims_pos": [0, 1], "inner_tiles": [17, 16], "padding_value": 48}
    op = ops.pack(("n", 3, "m", 17), dtype="uint8", **tiles)
    (launch,) = moved(op, "rocm:gfx942", input=x)
    assert {access.space for access in launch.accesses} == {"global", "shared"}


@pytest.mark.parametrize("target", TARGETS)
def test_a_tile_of_fewer_elements_than_lanes_is_not_turned_in_shared_memory(target):
    x = np.arange(24 * 40, dtype="float32").reshape(24, 40)
    op = ops.pack(x, inner_dims_pos=[1, 0], outer_dims_perm=[1, 0], inner_tiles=[8, 8])
    (launch,) = moved(op, target, input=x)
    assert {access.space for access in launch.accesses} == {"global"}


def test_a_padding_keeps_its_bits_in_shared_memory():
    x = np.arange(40 * 33).reshape(40, 33).astype(ml_dtypes.bfloat16)
    op = ops.map_load((40, 33), (33, 40), "arg1 - 3, arg0, 1.0", dtype="bfloat16")
    (launch,) = moved_to("output", op, "rocm:gfx942", source=x)
    assert {access.space for access in launch.accesses} == {"global", "shared"}


def test_a_copy_is_of_wide_accesses():
    x = np.arange(128 * 64, dtype="float32").reshape(128, 64)
    op = vector_ext.to_layout(
        (128, 64), NestedLayout((1, 1), (1, 1), (1, 1), (32, 1), (4, 64), (0, 0), (1, 0))
    )
    (done,) = moved(op, "cuda:sm_80", input=x)
    assert done.uncoalesced == 0
    assert {access.access_bytes for access in done.accesses} == {16}


@pytest.mark.parametrize("num_subgroups", [1, 2, 4])  # several parts, one, replicas
def test_lanes_and_back(num_subgroups):
    x = np.arange(60, dtype="int8")
    how = {"num_subgroups": num_subgroups, "subgroup_size": 8}
    op = vector_ext.to_simt((60,), LAYOUT, dtype="int8", padding=7, **how)
    simulations = moved(op, "cuda:sm_80", input=x)
    assert len(simulations) == (2 if num_subgroups == 1 else 1)  # a table where parts are several
    parts = find(op.name).reference(op, {"input": x})["result"]
    moved(
        vector_ext.to_simd(parts.shape, LAYOUT, result=(60,), dtype="int8", **how),
        "rocm:gfx942",
        input=parts,
    )


def test_many_dims_are_few_loops():
    """A layout of eleven dims would be sought for minutes."""
    shape = (2, 1, 3, 1, 2, 1, 1, 2, 1, 3, 1)
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    op = ops.pack(shape, inner_dims_pos=[0], inner_tiles=[2])
    moved(op, "cuda:sm_80", input=x)


def test_a_config_that_does_not_fit_is_refused():
    rule, op, target = (
        GpuPack(),
        ops.pack((8,), inner_dims_pos=[0], inner_tiles=[4]),
        make_target("cuda:sm_80"),
    )
    config = rule.heuristic(op, target)
    for field, value, message in (
        ("algorithm", "rows", "algorithm is 'rows'; expected one of elementwise, transposed"),
        (
            "workgroup_tile",
            {"lanes": 2048},
            r"workgroup_tile\['lanes'\] is 2048; expected 1 to 1024",
        ),
        ("workgroup_tile", {"lanes": 48}, "is 48; expected a multiple of 32"),
        ("vector_lanes", 8, "vector_lanes is 8; expected a power of two up to 4"),
    ):
        with pytest.raises(ScheduleError, match=message):
            rule.lower(op, target, replace(config, **{field: value}))
    assert rule.applies(op, make_target("llvm")) == "llvm is not a GPU target"


def turned(dtype):
    how = {"dtype": dtype}
    return [
        (ops.map_load(("n", "m"), ("m", "n"), "arg1, arg0, 0.0", **how), (70, 100)),
        (ops.pack((64, 96), inner_dims_pos=[1, 0], inner_tiles=[32, 64], **how), (64, 96)),
        (ops.unpack((3, 2, 32, 16), (30, 96), inner_dims_pos=[1, 0], inner_tiles=[32, 16],
                    outer_dims_perm=[1, 0], **how), (3, 2, 32, 16)),
    ]  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_is_transposed_goes_through_shared_memory_without_conflicts(dtype, target):
    for op, shape in turned(dtype):
        (argument,) = op.signature.arguments
        operands = {argument.name: np.arange(np.prod(shape)).reshape(shape).astype(dtype)}
        done = simulate_op(op, target, operands).check()
        want = find(op.name).reference(op, operands)
        for name, value in want.items():
            np.testing.assert_array_equal(done.results[name], value)
        (launch,) = done.simulations
        assert launch.bank_conflicts == 0
        assert {access.space for access in launch.accesses} == {"global", "shared"}
        aligned = all(extent % 32 == 0 for extent in shape[-2:])
        assert not aligned or launch.uncoalesced == 0


@pytest.mark.parametrize(
    ("op", "want"),
    [
        (ops.map_load((64, 64), (64, 64), "arg1, arg0, 0.0"), (0, 1)),
        (ops.map_load((64, 64), (64, 64), "arg0, arg1, 0.0"), None),
        (ops.map_load((9, 4), (4, 9), "arg1, arg0, 0.0"), None),  # runs too short
        (ops.pack((64, 96), inner_dims_pos=[0, 1], inner_tiles=[16, 32]), None),
        (ops.pack((64, 96), inner_dims_pos=[1, 0], inner_tiles=[16, 32]), (2, 3)),
        (ops.gather((64, 64), (9,)), None),
    ],
)
def test_a_transpose_is_told_by_the_indices(op, want):
    sch = s_tir.Schedule(op.prim_func())
    assert transposed_dims(sch, root_blocks(sch)[0]) == want


@pytest.mark.costly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [("n", "m"), ("n", 61), (37, "m")])
def test_what_is_transposed_is_a_tile_in_shared_memory_where_extents_are_open(shape, target):
    x = np.arange(37 * 61, dtype="float16").reshape(37, 61)
    op = ops.pack(shape, inner_dims_pos=[], inner_tiles=[], outer_dims_perm=[1, 0], dtype="float16")
    (launch,) = moved(op, target, input=x)
    assert {access.space for access in launch.accesses} == {"global", "shared"}
    for report in inspect_op(op, target).reports.values():  # of CUDA where there are its tools
        assert 0 < report.shared_memory_bytes <= 32 * 66 * 2
