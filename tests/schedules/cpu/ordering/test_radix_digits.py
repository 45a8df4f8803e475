"""Keys of elements as unsigned integers, computed by a kernel beside NumPy's order."""

import numpy as np
import pytest
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.cpu.ordering.radix_digits import RadixDigits, ordered_bits


def keys_of(values, descending):
    dtype, unsigned = str(values.dtype), f"uint{8 * values.itemsize}"
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("keys")
        x = I.arg("x", I.Buffer(values.shape, dtype, align=1))
        y = I.arg("y", I.Buffer(values.shape, unsigned, align=1))
        with I.serial(0, len(values)) as i:
            I.buffer_store(y, ordered_bits(x[i], dtype, descending), [i])
    library = tvm.compile(tvm.IRModule({"keys": builder.get()}), target="llvm")
    taken, given = tvm.runtime.tensor(values), tvm.runtime.tensor(values.view(unsigned))
    library["keys"](taken, given)
    return given.numpy()


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float32", "float64"])
def test_smaller_keys_go_first_and_equal_elements_have_equal_keys(dtype, descending):
    values = np.array([0, 1, 5, 100, 7, 7, 2], dtype)
    if not dtype.startswith("uint"):
        values = np.concatenate([values, -values])  # with -0.0 of floats, which equals 0.0
    if dtype.startswith("float"):
        values = np.append(values, np.array([np.inf, -np.inf, 0.5], dtype))
    keys = keys_of(values, descending)
    before = values[:, None] < values[None, :]
    assert (keys[:, None] < keys[None, :]).tolist() == (before.T if descending else before).tolist()


def test_digits_cover_the_key():
    digits = RadixDigits(["int64", "float32"], 1, False, 11)
    assert (digits.buckets, list(digits.shifts)) == (2048, [0, 11, 22])
