"""Cheap elementwise functions are computed by each of their readers, where that saves an array."""

import numpy as np
import pytest
from relax_programs import Maker, check, normal
from tvm import tirx

from tvm_iree_ext import ops
from tvm_iree_ext.programs import program_lowering


def less_the_largest(m, x, most, shape):
    return m.nest([x, most], shape, "float32", lambda r, i, j: r[0](i, j) - r[1](i))


@pytest.mark.parametrize(("columns", "kernels"), [(512, 2), (8, 3)])
def test_each_reader_computes_what_is_cheap_and_large(columns, kernels, tmp_path, monkeypatch):
    """The sum of exp(x - most), and x - most less that: the difference is no array if large."""
    monkeypatch.setattr(program_lowering, "fuse_row_chains", lambda mod, *_: mod)
    shape = (64, columns)
    m = Maker(x=(shape, "float32"), most=((64,), "float32"))

    def make(emit):
        x, most = m.vars
        y = emit(less_the_largest(m, x, most, shape))
        total = emit(
            m.nest(
                [y],
                (64,),
                "float32",
                lambda total, r, i, j: total + tirx.exp(r[0](i, j)),
                reduced=(columns,),
                init=0.0,
            )
        )
        return [emit(m.nest([y, total], shape, "float32", lambda r, i, j: r[0](i, j) - r[1](i)))]

    x, most = normal(*shape), normal(64)
    y = x - most[:, None]
    want = y - np.exp(y).sum(axis=1, keepdims=True)
    built = check(m, make, [(shape, "float32")], [x, most], [want], tmp_path, atol=1e-3)
    assert built.resources["kernels"] == kernels


def test_what_an_op_reads_stays_an_array(tmp_path):
    shape = (128, 256)
    op = ops.matmul(shape, (256, 4))
    m = Maker(x=(shape, "float32"), most=((128,), "float32"), w=((256, 4), "float32"))

    def make(emit):
        x, most, w = m.vars
        y = emit(less_the_largest(m, x, most, shape))
        z = emit(m.op("product", op, [y, w], (128, 4), "float32"))
        return [z, emit(m.nest([y], shape, "float32", lambda r, i, j: tirx.exp(r[0](i, j))))]

    x, most, w = normal(*shape), normal(128), normal(256, 4)
    y = x - most[:, None]
    results = [((128, 4), "float32"), (shape, "float32")]
    built = check(m, make, results, [x, most, w], [y @ w, np.exp(y)], tmp_path, atol=1e-3)
    assert built.resources["kernels"] == 3
