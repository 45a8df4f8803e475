"""Gathers and slices are computed in the reduction that alone reads them, each element once."""

import numpy as np
import pytest
from relax_programs import Maker, check, normal, program
from tvm import tirx

from tvm_iree_ext.programs import program_lowering
from tvm_iree_ext.programs.base.relax_passes import prim_functions
from tvm_iree_ext.targets.names import make_target

F32 = "float32"


class Sums:
    """Sums of every second row of each block."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.maker = Maker(x=((blocks, 9, 32), F32))

    def make(self, emit):
        m, shape = self.maker, (self.blocks, 4, 32)
        rows = emit(m.nest([m["x"]], shape, F32, lambda r, i, j, k: r[0](i, 2 * j, k)))
        return [summed(m, emit, rows, (self.blocks, 32))]


def summed(m, emit, rows, shape):
    def added(total, r, i, k, j):
        return total + r[0](i, j, k)

    return emit(m.nest([rows], shape, F32, added, reduced=(4,), init=0.0))


@pytest.mark.parametrize("blocks", [6, "blocks"])
@pytest.mark.parametrize("is_fused", [True, False])
def test_a_slice_is_summed_as_it_is_read(blocks, is_fused, tmp_path, monkeypatch):
    if not is_fused:
        monkeypatch.setattr(program_lowering, "fuse_into_reductions", lambda mod: mod)
    case, x = Sums(blocks), normal(6, 9, 32)
    results = [((blocks, 32), F32)]
    check(case.maker, case.make, results, [x], [x[:, :8:2].sum(1)], tmp_path)
    case = Sums(blocks)
    fused = program_lowering.fused_program(
        program(case.maker, case.make, results), make_target("llvm")
    )
    called = [var for var in prim_functions(fused.module) if "nest" in var.name_hint]
    assert len(called) == (1 if is_fused else 2)


def test_what_another_reads_too_is_written_once(tmp_path):
    m = Maker(x=((6, 9, 32), F32))

    def make(emit):
        rows = emit(m.nest([m["x"]], (6, 4, 32), F32, lambda r, i, j, k: r[0](i, 2 * j, k)))
        return [summed(m, emit, rows, (6, 32)), rows]

    x = normal(6, 9, 32)
    rows = x[:, :8:2]
    results = [((6, 32), F32), ((6, 4, 32), F32)]
    made = check(m, make, results, [x], [rows.sum(1), rows], tmp_path)
    assert made.resources["kernels"] == 2


def test_windows_read_what_was_padded_before(tmp_path):
    """Each element is in several windows."""
    m = Maker(x=((6, 32), F32))

    def padded(r, i, k):
        return tirx.if_then_else(i < 6, r[0](i, k), tirx.const(0.0, F32))

    def added(total, r, i, k, j):
        return total + r[0](i + j, k)

    def make(emit):
        rows = emit(m.nest([m["x"]], (9, 32), F32, padded))
        return [emit(m.nest([rows], (6, 32), F32, added, reduced=(4,), init=0.0))]

    x = normal(6, 32)
    long = np.concatenate([x, np.zeros((3, 32), F32)])
    expected = sum(long[j : j + 6] for j in range(4))
    made = check(m, make, [((6, 32), F32)], [x], [expected], tmp_path)
    assert made.resources["kernels"] == 2
