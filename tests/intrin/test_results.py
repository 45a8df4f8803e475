"""What the kernels of every kind compute, by the simulator and the documented lane maps."""

import ml_dtypes
import numpy as np
import pytest
from sample_wgmma import warpgroup_product

from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.intrin.kernel_attributes import with_swizzles
from tvm_iree_ext.intrin.nvidia import ldmatrix_form
from tvm_iree_ext.intrin.tensor_intrins import intrins_obstacle
from tvm_iree_ext.simulator import device_functions, simulate
from tvm_iree_ext.simulator.runs.sample_mma import tile_product
from tvm_iree_ext.targets.gpu import chip_names
from tvm_iree_ext.targets.mma.mma_kinds import tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_table
from tvm_iree_ext.targets.names import make_target

ROWS = [row for row in mma_table().values() if intrins_obstacle(row) is None]
STEPS = 2


def target_of(row):
    chip = next(name for name in row.arch if name in chip_names())
    wave = "@wave64" if row.subgroup_size == 64 and row.name.startswith("WMMA") else ""
    return make_target(f"{'cuda' if row.vendor == 'nvidia' else 'rocm'}:{chip}{wave}")


def numpy_type(dtype):
    name = tvm_dtype(dtype)
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def nibbles(array, axis):
    """Pairs along ``axis`` as bytes, the even one low."""
    low, high = (np.take(array, range(first, array.shape[axis], 2), axis) for first in (0, 1))
    return ((low & 15) | (high << 4)).astype(np.int8)


def four_bit_floats(array):
    """Small numbers as bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and the negative ones."""
    return array.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)


def in_memory(array, dtype, k_axis, transposed):
    array = nibbles(array, k_axis) if dtype == "i4" else array.astype(numpy_type(dtype))
    return np.ascontiguousarray(array.swapaxes(-1, -2) if transposed else array)


def check(row, **how):
    """The kernel's result is the product, exactly, and the simulator finds nothing."""
    rng = np.random.default_rng(1)
    largest = 1 if row.c in ("f16", "bf16") else 3
    lead = (row.blocks,) if row.blocks > 1 else ()
    depth = STEPS * row.k
    a = rng.integers(-largest, largest + 1, (*lead, row.m, depth))
    b = rng.integers(-largest, largest + 1, (*lead, depth, row.n))
    c = np.zeros((*lead, row.m, row.n), numpy_type(row.c))
    transposed = how.get("transposed", ())
    arguments = {
        "A": in_memory(a, row.a, -1, "lhs" in transposed),
        "B": in_memory(b, row.b, -2, "rhs" in transposed),
        "C": c,
    }
    (kernel,) = device_functions(
        lower_device(tile_product(row.name, steps=STEPS, **how), target_of(row))
    )
    simulate(kernel, arguments).check()
    np.testing.assert_array_equal(c.astype(np.float64), (a @ b).astype(np.float64))


def check_scaled(row, transposed=(), **how):
    """As :func:`check`; A is ``[M, blocks, block]``, B ``[blocks, block, N]``, scales are 2**i."""
    rng = np.random.default_rng(1)
    m, blocks, block = row.m, STEPS * row.k // row.scale_block, row.scale_block
    a, b = (
        rng.integers(-3, 4, extents) for extents in ((m, blocks, block), (blocks, block, row.n))
    )
    scales = rng.integers(124, 131, (m, blocks)), rng.integers(124, 131, (blocks, row.n))
    c = np.zeros((m, row.n), "float32")
    left, right = (nibbles(four_bit_floats(x), axis) for x, axis in ((a, 2), (b, 1)))
    arguments = {"A": left, "B": right, "C": c}
    for side, name, scale, order in (
        ("lhs", "A", scales[0], (1, 2, 0)),
        ("rhs", "B", scales[1], (2, 0, 1)),
    ):
        if side in transposed:
            arguments[name] = np.ascontiguousarray(arguments[name].transpose(order))
        arguments[f"{name}_scale"] = scale.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    func = tile_product(row.name, steps=STEPS, transposed=transposed, **how)
    (kernel,) = device_functions(lower_device(func, target_of(row)))
    simulate(kernel, arguments).check()
    up, down = (2.0 ** (scale - 127) for scale in scales)
    np.testing.assert_array_equal(c, np.einsum("mst,ms,stn,sn->mn", a, up, b, down))


@pytest.mark.costly
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_kind(row):
    (check_scaled if row.kind == "scaled" else check)(row)


SCALED = [row for row in ROWS if row.kind == "scaled"]


@pytest.mark.parametrize("row", SCALED, ids=lambda row: row.name)
@pytest.mark.parametrize("column_major", [False, True])
def test_scaled_from_shared_memory(row, column_major):
    check_scaled(row, shared=True, column_major=column_major, transposed=("rhs",))


SPARSE = [row for row in ROWS if row.kind == "virtual_sparse" and row.arch == ("gfx950",)]


@pytest.mark.parametrize("row", SPARSE, ids=lambda row: row.name)
def test_rows_on_sparse_instructions_from_shared_memory(row):
    check(row, shared=True, transposed=("rhs",))


@pytest.mark.parametrize(
    "name",
    ["MFMA_F32_32x32x8_F16", "MFMA_F32_16x16x32_F8E5M2_F8E4M3FN", "VMFMA_F32_16x16x32_F16",
     "WMMAR3_F32_16x16x16_BF16", "WMMAR4_I32_16x16x16_I8"],
)  # fmt: skip
def test_column_major_from_shared_memory(name):
    check(mma_kind(name), shared=True, column_major=True, transposed=("rhs",))


def loads(row, side, transposed):
    order = (1, 0) if transposed else (0, 1)
    return ldmatrix_form(row.operand(side), order) is not None


LDMATRIX = [
    pytest.param(row, transposed, id=f"{row.name}-{'-'.join(transposed) or 'plain'}")
    for row in ROWS
    if row.vendor == "nvidia"
    for transposed in ((), ("lhs",), ("rhs",), ("lhs", "rhs"))
    if all(loads(row, side, side in transposed) for side in ("lhs", "rhs"))
]


@pytest.mark.costly
@pytest.mark.parametrize(("row", "transposed"), LDMATRIX)
def test_ldmatrix(row, transposed):
    check(row, shared=True, ldmatrix=True, transposed=transposed)


def check_warpgroup(mma, **how):
    rng = np.random.default_rng(1)
    largest = 1 if mma.c == "f16" else 3
    depth = 2 * how.get("steps", 2) * mma.k
    a = rng.integers(-largest, largest + 1, (mma.m, depth))
    b = rng.integers(-largest, largest + 1, (depth, mma.n))
    c = np.zeros((mma.m, mma.n), numpy_type(mma.c))
    arguments = {
        "A": in_memory(a, mma.a, -1, not how.get("lhs_k_major", True)),
        "B": in_memory(b, mma.b, -2, how.get("rhs_k_major", True)),
        "C": c,
    }
    func = with_swizzles(*warpgroup_product(mma.name, **how))
    (kernel,) = device_functions(lower_device(func, make_target("cuda:sm_90a")))
    simulate(kernel, arguments).check()
    np.testing.assert_array_equal(c.astype(np.float64), (a @ b).astype(np.float64))


WARPGROUP = [row for row in mma_table().values() if row.kind == "warpgroup"]


@pytest.mark.costly
@pytest.mark.parametrize("mma", WARPGROUP, ids=lambda mma: mma.name)
@pytest.mark.parametrize("lhs_in_registers", [False, True])
def test_every_warpgroup_kind(mma, lhs_in_registers):
    check_warpgroup(mma, lhs_in_registers=lhs_in_registers)


@pytest.mark.costly
@pytest.mark.parametrize("swizzle_bytes", [16, 32, 64, 128])
@pytest.mark.parametrize("k_major", [(True, True), (True, False), (False, True), (False, False)])
def test_wgmma_reads_every_placement(swizzle_bytes, k_major):
    steps = max(1, swizzle_bytes // 32)  # K-major rows of one atom
    check_warpgroup(
        mma_kind("NV_WGMMA_F32_64x64x16_F16"), steps=steps, swizzle_bytes=swizzle_bytes,
        lhs_k_major=k_major[0], rhs_k_major=k_major[1],
    )  # fmt: skip
