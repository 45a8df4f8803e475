"""What the kernels of every kind compute, by the simulator and the documented lane maps."""

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.device.pipeline import lower_device
from tvm_iree_ext.intrin.nvidia import ldmatrix_form
from tvm_iree_ext.intrin.sample import tile_product
from tvm_iree_ext.simt import device_functions, simulate
from tvm_iree_ext.target.gpu import chip_names
from tvm_iree_ext.target.mma import tvm_dtype
from tvm_iree_ext.target.mma_table import mma_kind, mma_table
from tvm_iree_ext.target.names import make_target

ROWS = [row for row in mma_table().values() if row.kind in ("native", "virtual")]
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


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_kind(row):
    check(row)


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


@pytest.mark.parametrize(("row", "transposed"), LDMATRIX)
def test_ldmatrix(row, transposed):
    check(row, shared=True, ldmatrix=True, transposed=transposed)
