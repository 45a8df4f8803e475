"""Narrow elements move as words: by permuted bytes, and by asynchronous copies."""

import numpy as np
import pytest
import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_planning import plan_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import MatmulConfig
from tvm_iree_ext.simulator import device_functions, simulate
from tvm_iree_ext.targets.names import make_target

CHIPS = ("cuda:sm_89", "rocm:gfx942")


def columns(rows, width, dtype):
    """Each lane reads ``rows`` rows from global memory and writes their columns."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("main")
        source = I.arg("source", I.Buffer((32, rows, width), dtype))
        target = I.arg("target", I.Buffer((32, width, rows), dtype))
        with I.thread_binding(0, 32, "threadIdx.x") as lane, I.sblock("root"):
            held = I.sblock_alloc_buffer((rows * width,), dtype, scope="local")
            with I.unroll(0, rows) as row, I.vectorized(0, width) as column:
                I.buffer_store(held, source[lane, row, column], [row * width + column])
            with I.unroll(0, width) as column, I.vectorized(0, rows) as row:
                I.buffer_store(target, held[row * width + column], [lane, column, row])
    return builder.get()


def called(func):
    names = []

    def see(call):
        names.extend(str(arg.value) for arg in call.args[:1] if isinstance(arg, ir.StringImm))
        names.append(str(getattr(call.op, "name", "")))

    tvm_ffi.structural_walk(func.body, (ir.Call, see))
    return names


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("rows", "width", "dtype"),
    [(4, 16, "int8"), (8, 8, "uint8"), (16, 4, "int8"), (4, 8, "int16"), (2, 8, "float16")],
)
def test_columns_are_permuted_words(chip, rows, width, dtype):
    module = lower_device(columns(rows, width, dtype), make_target(chip))
    (kernel,) = device_functions(module)
    source = np.random.default_rng(0).integers(-99, 99, (32, rows, width)).astype(dtype)
    target = np.zeros((32, width, rows), dtype)
    arrays = {"source": source, "target": target}
    given = [arrays[parameter.name.removesuffix("_ptr")] for parameter in kernel.params]
    simulate(kernel, given).check()
    np.testing.assert_array_equal(target, source.swapaxes(1, 2))
    names = called(next(iter(module.functions.values())))
    words = rows * width * np.dtype(dtype).itemsize // 4
    permutes = {"cuda": "__byte_perm", "rocm": "tirx.call_llvm_pure_intrin"}
    most = 2 * words * (2 if np.dtype(dtype).itemsize == 1 else 1)  # as written; equal ones are one
    assert 0 < names.count(permutes[chip.partition(":")[0]]) <= most


@pytest.mark.parametrize(
    "kind", ["NV_MMA_SYNC_F32_16x8x16_BF16", "NV_MMA_SYNC_F32_16x8x32_F8E4M3FN"]
)
def test_words_are_copied_asynchronously(kind):
    target = make_target("cuda:sm_89")
    dtype = "bfloat16" if kind.endswith("BF16") else "float8_e4m3fn"
    shape = MatmulShape(256, 256, 256, dtype, dtype, "float32", rhs_order=(1, 0))
    config = MatmulConfig(kind, tiles=(2, 2), k_tiles=2, stages=3)
    module = lower_device(schedule_matmul(shape, target, config), target)
    (kernel,) = module.functions.values()
    assert "tirx.s_tir.cp_async_raw" in called(kernel) or "cp_async" in kernel.script()
    assert sorted(str(parameter.name) for parameter in kernel.params) == [
        "lhs_ptr",
        "result_ptr",
        "rhs_ptr",
    ]


def test_a_block_of_bytes_fits_the_lanes():
    """256 lanes, 128 rows of 128 bytes: 4 rows of 16, which are read at once, for each."""
    target = make_target("rocm:gfx942")
    shape = MatmulShape(512, 512, 512, "int8", "int8", "int32")
    config = MatmulConfig("MFMA_I32_16x16x32_I8", tiles=(4, 4), k_tiles=4, stages=2)
    plan = plan_matmul(shape, target, config)
    assert plan.copy("rhs").element_tile == (4, 16)
    assert plan.copy("rhs").undistributed_shape == (128, 128)
    assert isinstance(schedule_matmul(shape, target, config), tirx.PrimFunc)
