"""Transposes in registers: their shuffles, beside NumPy's transpose."""

import numpy as np
import pytest
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit


def moved(x, count, vectors):
    """What ``vectors(rows)`` leaves of ``count`` rows of a flat array."""
    lanes = x.size // count
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("move")
        source, target = (I.arg(n, I.Buffer((x.size,), str(x.dtype), align=1)) for n in "xy")
        rows = [source[emit.run(row * lanes, lanes)] for row in range(count)]
        for place, vector in enumerate(vectors(rows)):
            I.buffer_store(target, vector, [emit.run(place * lanes, lanes)])
    library = tvm.compile(tvm.IRModule({"move": builder.get()}), target="llvm")
    given = tvm.runtime.tensor(np.zeros_like(x))
    library["move"](tvm.runtime.tensor(x), given)
    return given.numpy()


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_a_square_is_transposed(lanes):
    x = np.arange(lanes * lanes, dtype="int32")
    got = moved(x, lanes, emit.transpose)
    np.testing.assert_array_equal(got, x.reshape(lanes, lanes).T.reshape(-1))


@pytest.mark.parametrize(("count", "lanes"), [(2, 8), (4, 4), (8, 4)])
def test_rows_are_interleaved(count, lanes):
    x = np.arange(count * lanes, dtype="int32")
    got = moved(x, count, lambda rows: emit.interleaved(rows, lanes))
    np.testing.assert_array_equal(got, x.reshape(count, lanes).T.reshape(-1))
