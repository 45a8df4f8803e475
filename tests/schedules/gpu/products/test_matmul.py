import random
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from tvm import ir

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.codegen.gpu.cuda import nvrtc_obstacle
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.inspection.inspected_kernel import inspect_op
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_heuristic import matmul_config, matmul_kind
from tvm_iree_ext.schedules.gpu.products.matmul_planning import check_matmul, plan_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import MatmulConfig
from tvm_iree_ext.schedules.gpu.sblocks.launch_bounds import LEAST_WORKGROUPS
from tvm_iree_ext.simulator import device_functions, simulate
from tvm_iree_ext.targets.mma.mma_kinds import tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind
from tvm_iree_ext.targets.names import make_target

HALF = ("float16", "float16", "float32")
NUMPY = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz}
CHIPS = {
    "cuda:sm_80": "NV_MMA_SYNC_F32_16x8x16_F16",
    "cuda:sm_86": "NV_MMA_SYNC_F32_16x8x16_F16",
    "cuda:sm_89": "NV_MMA_SYNC_F32_16x8x16_F16",
    "cuda:sm_90": "NV_MMA_SYNC_F32_16x8x16_F16",
    "cuda:sm_100": "NV_MMA_SYNC_F32_16x8x16_F16",
    "rocm:gfx90a": "VMFMA_F32_16x16x32_F16",
    "rocm:gfx942": "VMFMA_F32_16x16x32_F16",
    "rocm:gfx950": "MFMA_F32_16x16x32_F16",
    "rocm:gfx1100": "WMMAR3_F32_16x16x16_F16",
    "rocm:gfx1201": "WMMAR4_F32_16x16x16_F16",
}


def small(kind, stages=2, **more):
    """A workgroup of four subgroups, with few instructions each."""
    return MatmulConfig(kind, tiles=(2, 2), k_tiles=2, stages=stages, **more)


def multiplied(shape, target, config):
    """The simulator's result, what it should be, and the simulation."""
    (kernel,) = device_functions(lower_device(schedule_matmul(shape, target, config), target))
    random = np.random.default_rng(shape.m)
    arrays = {}
    for side, dtype in (("lhs", shape.lhs_dtype), ("rhs", shape.rhs_dtype)):
        numbers = random.integers(-3, 4, shape.extents(side))
        arrays[side] = numbers.astype(NUMPY.get(dtype, dtype))
    arrays["result"] = np.zeros((shape.m, shape.n), shape.result_dtype)
    given = [arrays[parameter.name.removesuffix("_ptr")] for parameter in kernel.params]
    simulation = simulate(kernel, given)
    simulation.check()
    lhs = arrays["lhs"].astype("float64").transpose(shape.lhs_order)
    rhs = arrays["rhs"].astype("float64").transpose(shape.rhs_order)
    return arrays["result"], lhs @ rhs, simulation


# Chips of one instruction have the same kernel of one config.
FIRST = {kind: chip for chip, kind in reversed(CHIPS.items())}


@pytest.mark.costly
@pytest.mark.parametrize("chip", FIRST.values())
def test_every_instruction_multiplies_by_one_rule(chip):
    """Tails in all dims, which are prime to the tiles, and stages that run dry."""
    target = make_target(chip)
    shape = MatmulShape(70, 100, 104, *HALF, rhs_order=(1, 0))
    found, expected, simulation = multiplied(shape, target, small(CHIPS[chip]))
    np.testing.assert_array_equal(found, expected)
    assert any("16x" in name for name in simulation.counts)


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942", "rocm:gfx1201"])
@pytest.mark.parametrize("lhs_order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("rhs_order", [(0, 1), (1, 0)])
def test_operands_lie_in_memory_either_way(chip, lhs_order, rhs_order):
    shape = MatmulShape(64, 48, 64, *HALF, lhs_order, rhs_order)
    config = small(CHIPS[chip], stages=1)
    found, expected, _ = multiplied(shape, make_target(chip), config)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (16, 8, 16), (17, 3, 5), (65, 130, 33), (3, 200, 64)]
)
@pytest.mark.parametrize("chip", ["cuda:sm_80", "rocm:gfx942"])
def test_any_extents(chip, m, n, k):
    shape = MatmulShape(m, n, k, *HALF)
    found, expected, _ = multiplied(shape, make_target(chip), small(CHIPS[chip]))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_asynchronous_copies_have_any_number_of_stages(stages):
    target, shape = make_target("cuda:sm_80"), MatmulShape(64, 32, 200, *HALF)
    found, expected, _ = multiplied(shape, target, small(CHIPS["cuda:sm_80"], stages))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("chip", "kind"),
    [
        ("cuda:sm_80", "NV_MMA_SYNC_F32_16x8x16_BF16"),
        ("cuda:sm_80", "NV_MMA_SYNC_I32_16x8x32_I8"),
        ("rocm:gfx950", "MFMA_I32_16x16x64_I8"),
        ("rocm:gfx942", "MFMA_F32_16x16x4_F32"),
        ("rocm:gfx942", "MFMA_I32_16x16x32_I8"),
        ("rocm:gfx942", "MFMA_F32_32x32x8_F16"),
        ("rocm:gfx1100", "WMMAR3_I32_16x16x16_I8"),
        ("rocm:gfx950", "MFMA_F32_16x16x32_BF16"),
    ],
)
def test_other_types_and_tiles(chip, kind):
    mma = mma_kind(kind)
    dtypes = [tvm_dtype(dtype) for dtype in (mma.a, mma.b, mma.c)]
    for rhs_order in ((0, 1), (1, 0)):
        shape = MatmulShape(40, 72, 48, *dtypes, rhs_order=rhs_order)
        found, expected, _ = multiplied(shape, make_target(chip), small(kind))
        np.testing.assert_array_equal(found, expected)


def test_a_transposed_accumulator_is_stored_in_runs():
    target, shape = make_target("rocm:gfx942"), MatmulShape(64, 64, 64, *HALF)
    stores = []
    for column_major in (False, True):
        config = small("MFMA_F32_16x16x16_F16", column_major=column_major)
        found, expected, simulation = multiplied(shape, target, config)
        np.testing.assert_array_equal(found, expected)
        access = [a for a in simulation.accesses if a.space == "global" and a.store]
        stores.append((access[0].access_bytes, sum(a.instructions for a in access)))
    assert stores == [(4, 64), (16, 16)]


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["rocm:gfx90a", "rocm:gfx942", "rocm:gfx950"])
@pytest.mark.parametrize("rhs_order", [(0, 1), (1, 0)])
def test_no_order_of_operands_costs_bank_conflicts(chip, rhs_order):
    """Where K is not contiguous, the copy to shared memory transposes."""
    target = make_target(chip)
    shape = MatmulShape(128, 128, 128, *HALF, rhs_order=rhs_order)
    config = MatmulConfig(CHIPS[chip], tiles=(4, 4), stages=2, column_major=True)
    found, expected, simulation = multiplied(shape, target, config)
    np.testing.assert_array_equal(found, expected)
    assert (simulation.bank_conflicts, simulation.uncoalesced) == (0, 0)
    widths = {(a.store, a.access_bytes) for a in simulation.accesses if a.space == "shared"}
    assert (False, 16) in widths
    assert (False, 2) not in widths


@pytest.mark.costly
@pytest.mark.parametrize(
    ("chip", "kind", "dtypes"),
    [
        ("cuda:sm_80", "NV_MMA_SYNC_I32_16x8x32_I8", ("int8", "int8", "int32")),
        ("cuda:sm_89", "NV_MMA_SYNC_F32_16x8x32_F8E4M3FN",
         ("float8_e4m3fn", "float8_e4m3fn", "float32")),
        ("rocm:gfx942", "MFMA_I32_16x16x32_I8", ("int8", "int8", "int32")),
        ("rocm:gfx942", "MFMA_F32_16x16x32_F8E4M3FNUZ",
         ("float8_e4m3fnuz", "float8_e4m3fnuz", "float32")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rhs_order", [(0, 1), (1, 0)])
def test_elements_of_8_bits_cost_no_bank_conflicts(chip, kind, dtypes, rhs_order):
    """By narrower writes to padded rows, or by columns that are permuted twice."""
    shape = MatmulShape(64, 128, 128, *dtypes, rhs_order=rhs_order)
    config = MatmulConfig(kind, tiles=(2, 4), k_tiles=4, stages=2)
    found, expected, simulation = multiplied(shape, make_target(chip), config)
    np.testing.assert_array_equal(found, expected)
    assert simulation.bank_conflicts == 0


@pytest.mark.parametrize("swizzle", [False, True])
def test_rows_are_padded_or_permuted(swizzle):
    """Rows of 64 bytes: padded, those of a copy meet in a bank; permuted, they do not."""
    target, shape = make_target("cuda:sm_80"), MatmulShape(64, 32, 64, *HALF, rhs_order=(1, 0))
    config = small(CHIPS["cuda:sm_80"], swizzle=swizzle)
    found, expected, simulation = multiplied(shape, target, config)
    np.testing.assert_array_equal(found, expected)
    assert (simulation.bank_conflicts == 0) == swizzle
    placements = plan_matmul(shape, target, config).placements.values()
    assert all((one.placement.swizzle is not None) == swizzle for one in placements)
    assert all((one.placement.pad_bytes > 0) == (not swizzle) for one in placements)


@pytest.mark.parametrize("chip", CHIPS)
def test_the_config_of_a_large_product_fits_its_chip(chip):
    target = make_target(chip)
    shape = MatmulShape(4096, 4096, 4096, *HALF, rhs_order=(1, 0))
    config = matmul_config(shape, target)
    turns = {"rocm:gfx950": "MFMA_F32_32x32x16_F16"}
    assert config.mma_kind == turns.get(chip, CHIPS[chip])
    plan = plan_matmul(shape, target, config)
    tiles = {  # the first: 82 cores, which 512 workgroups fit badly
        "cuda:sm_86": ((128, 128), (2, 2)),
        "rocm:gfx1201": ((256, 256), (4, 4)),
        "rocm:gfx942": ((128, 128), (2, 2)),  # four subgroups of each scheduler
        "rocm:gfx950": ((256, 256), (2, 2)),  # two tiles by turns
    }
    eight = ((256, 128), (2, 2) if "gfx9" in chip else (4, 2))  # of 64 lanes, and of 32
    assert (plan.tile[:2], config.subgroups) == tiles.get(chip, eight)
    assert plan.shared_memory_bytes <= plan.chip.shared_memory_bytes
    assert (plan.runs["lhs"], plan.runs["rhs"]) == (8, 8)


def test_fragments_are_read_without_bank_conflicts():
    target = make_target("cuda:sm_80")
    shape = MatmulShape(128, 128, 128, *HALF)
    config = MatmulConfig(CHIPS["cuda:sm_80"], tiles=(4, 8), k_tiles=4, stages=3)
    found, expected, simulation = multiplied(shape, target, config)
    np.testing.assert_array_equal(found, expected)
    assert (simulation.bank_conflicts, simulation.uncoalesced) == (0, 0)


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["rocm:gfx90a", "rocm:gfx942", "rocm:gfx950"])
def test_compiled_loops_keep_everything_in_registers(chip):
    target = make_target(chip)
    shape = MatmulShape(4096, 4096, 4096, *HALF, rhs_order=(1, 0))
    config = matmul_config(shape, target)
    code = compile_device(schedule_matmul(shape, target, config), target)
    (resources,) = code.resources.values()
    assert (resources.spills, resources.scratch_bytes) == (0, 0)
    m, n = config.tiles
    assert code.assembly.count("v_mfma_") % (m * n * config.k_tiles) == 0


@pytest.mark.parametrize(
    ("chip", "stages", "least"),
    [("cuda:sm_80", 3, 2), ("cuda:sm_80", 1, None), ("rocm:gfx942", 2, None)],
)
def test_ptxas_is_told_how_many_workgroups_shared_memory_has_room_for(chip, stages, least):
    """Two workgroups of three stages, of the four that registers have room for."""
    target = make_target(chip)
    shape = MatmulShape(512, 512, 512, *HALF, rhs_order=(0, 1))
    config = MatmulConfig(CHIPS[chip], tiles=(4, 4), k_tiles=4, stages=stages)
    kernels = lower_device(schedule_matmul(shape, target, config), target)
    found = [kernel.attrs.get(LEAST_WORKGROUPS) for kernel in kernels.functions.values()]
    assert found == [least]


@pytest.mark.skipif(bool(nvrtc_obstacle()), reason=nvrtc_obstacle())
def test_edges_of_every_width_compile_for_cuda():
    """Zeros beyond the edge are vectors of 8- and 16-bit elements."""
    target, functions = make_target("cuda:sm_80"), {}
    for dtype in ("F32_16x8x16_F16", "F32_16x8x16_BF16", "I32_16x8x32_I8"):
        mma = mma_kind(f"NV_MMA_SYNC_{dtype}")
        dtypes = [tvm_dtype(one) for one in (mma.a, mma.b, mma.c)]
        for name, rhs_order in (("as_it_is", (0, 1)), ("transposed", (1, 0))):
            shape = MatmulShape(60, 32, 200, *dtypes, rhs_order=rhs_order)
            function = schedule_matmul(shape, target, small(mma.name))
            name = f"{dtype}_{name}"
            functions[name] = function.with_attr("global_symbol", name)
    code = compile_device(ir.IRModule(functions), target)
    assert code.ptx.count(".entry ") == len(functions) == 6


@pytest.mark.parametrize(
    ("chip", "config", "message"),
    [
        ("cuda:sm_80", small("MFMA_F32_16x16x16_F16"), "sm_80 has no such instruction"),
        ("cuda:sm_80", small("NV_MMA_SYNC_F32_16x8x16_BF16"), "its types are bfloat16, bfloat16"),
        (
            "rocm:gfx942",
            small("MFMA_F32_16x16x16_F16", 4),
            "4 stages; expected 1 to 3, as the copies are not",
        ),
        ("cuda:sm_80", small(CHIPS["cuda:sm_80"], 0), "0 stages"),
        (
            "cuda:sm_80",
            MatmulConfig(CHIPS["cuda:sm_80"], subgroups=(8, 8)),
            "2048 lanes; a workgroup has at most 1024",
        ),
        (
            "cuda:sm_86",
            MatmulConfig(CHIPS["cuda:sm_80"], tiles=(4, 8), k_tiles=8, stages=3),
            "a workgroup of sm_86 has 101376",
        ),
        (
            "cuda:sm_80",
            MatmulConfig(CHIPS["cuda:sm_80"], tiles=(8, 8)),
            "registers of a lane for fragments",
        ),
        (
            "cuda:sm_80",
            small(CHIPS["cuda:sm_80"], column_major=True),
            "A and B are not each other's transposes",
        ),
        ("rocm:gfx942", small("MFMA_F32_4x4x4x16B_F16"), "several blocks at once"),
        ("rocm:gfx942", MatmulConfig(CHIPS["rocm:gfx942"], tiles=(0, 2)), "start at 1"),
    ],
)
def test_what_does_not_fit_is_refused(chip, config, message):
    shape = MatmulShape(256, 256, 256, *HALF)
    with pytest.raises(ScheduleError, match=message):
        plan_matmul(shape, make_target(chip), config)


@pytest.mark.costly
@pytest.mark.parametrize("chip", ["cuda:sm_86", "rocm:gfx942", "rocm:gfx1100"])
def test_the_quick_check_refuses_what_the_plan_refuses(chip):
    target, rng = make_target(chip), random.Random(1)

    def refused(check, shape, config):
        try:
            check(shape, target, config)
        except ScheduleError as error:
            return str(error)
        return None

    outcomes = set()
    for _ in range(20):
        shape = MatmulShape(*rng.choices((16, 77, 1000, 2048), k=3), *HALF)
        choices = [rng.choices((1, 2, 4), k=2) for _ in range(2)]
        config = MatmulConfig(
            CHIPS[chip],
            *map(tuple, choices),
            k_tiles=rng.choice((1, 4, 16)),
            stages=rng.choice((1, 2)),
        )
        planned = refused(plan_matmul, shape, config)
        assert (refused(check_matmul, shape, config) is None) == (planned is None), config
        outcomes.add(planned is None)
    assert len(outcomes) == 2


def test_a_chip_without_the_types_says_what_it_has():
    shape = MatmulShape(64, 64, 64, "int8", "int8", "float32")
    with pytest.raises(ScheduleError, match=r"no instruction for int8 \* int8 in float32"):
        matmul_kind(shape, make_target("rocm:gfx1100"))


def test_rows_that_fit_only_without_padding_are_permuted():
    """256 + 256 rows of 128 bytes are all the memory that a workgroup has."""
    target = make_target("rocm:gfx1201")
    shape = MatmulShape(256, 256, 64, *HALF, rhs_order=(1, 0))
    config = MatmulConfig(CHIPS["rocm:gfx1201"], (4, 4), (4, 4), k_tiles=4, stages=2)
    turned = plan_matmul(replace(shape, rhs_order=(0, 1)), target, config)
    assert turned.shared_memory_bytes == turned.chip.shared_memory_bytes
    plan = plan_matmul(shape, target, config)
    assert plan.shared_memory_bytes == plan.chip.shared_memory_bytes
    assert all(one.placement.swizzle is not None for one in plan.placements.values())
    found, expected, simulation = multiplied(shape, target, config)
    np.testing.assert_array_equal(found, expected)
    assert (simulation.bank_conflicts, simulation.uncoalesced) == (0, 0)


def test_subgroups_share_the_register_files():
    """Sixteen subgroups of 32 lanes have 128 registers each on NVIDIA's chips."""
    config = MatmulConfig(CHIPS["cuda:sm_90"], (4, 4), (4, 8), k_tiles=2, stages=2)
    with pytest.raises(ScheduleError, match="sm_90 has 128, of which 40 are for the rest"):
        plan_matmul(MatmulShape(512, 512, 512, *HALF), make_target("cuda:sm_90"), config)


def test_floats_of_8_bits_that_become_halves_take_their_registers():
    """``mma.sync`` of sm_89 multiplies them as they are; that of sm_90 converts them first."""
    shape = MatmulShape(4096, 4096, 4096, "float8_e4m3fn", "float8_e4m3fn", "float32")
    tiles = [matmul_config(shape, make_target(f"cuda:{chip}")).tiles for chip in ("sm_89", "sm_90")]
    assert np.prod(tiles[0]) == 2 * np.prod(tiles[1])


def test_few_converted_rows_of_an_open_depth_compile():
    """Tiles with fewer elements than lanes, of which TVM would keep whole rows in registers."""
    maps = ["(m, n, k) -> (m, k)", "(m, n, k) -> (n, k)", "(m, n, k) -> (m, n)"]
    lhs, rhs = ops.TensorType((3, "k"), "float32"), ops.TensorType(("n", "k"), "float64")
    op = ops.contraction(lhs, rhs, indexing_maps=maps, result_dtype="float64")
    assert inspect_op(op, "rocm:gfx1100").binary


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942", "rocm:gfx1100"])
def test_few_columns_of_an_open_depth_have_tiles(target):
    kind = "int8" if target == "cuda:sm_80" else "float16"
    op = ops.matmul(ops.TensorType((17, "k"), kind), ops.TensorType(("k", 2), kind))
    resolved = make_target(target)
    choose(op, resolved).heuristic(op, resolved)
