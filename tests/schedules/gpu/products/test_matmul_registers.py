"""Registers that are foreseen of products, beside those that compilers report."""

import pytest
from register_reports import report

from tvm_iree_ext.inspection.resource_sweep_cases import CASES
from tvm_iree_ext.schedules.gpu.contraction.contraction_matrices import (
    ContractionMatrices,
    MatrixOperands,
)
from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_heuristic import matmul_config
from tvm_iree_ext.schedules.gpu.products.matmul_planning import plan_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_registers import BEYOND, MatmulRegisters
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.schedules.gpu.products.multiplied_types import multiplied_types
from tvm_iree_ext.targets.gpu import gpu_chips
from tvm_iree_ext.targets.names import make_target

SLACK = 8  # registers: what another release of a compiler may take more, or fewer

# Of each chip a kernel, or two: where the compiler is the furthest from what is foreseen.
COMPILED = [
    ("cuda:sm_80", "matmul f16 16x4096x4096"),
    ("cuda:sm_86", "matmul f16 16x4096x4096"),
    ("cuda:sm_89", "matmul f16 16x4096x4096"),
    ("cuda:sm_90", "matmul f16 16x4096x4096"),
    ("cuda:sm_100", "matmul f64 2048x2048x2048"),
    ("cuda:sm_110", "matmul f64 2048x2048x2048"),
    ("cuda:sm_120", "matmul f32 4096x4096x4096"),
    ("rocm:gfx908", "matmul f16*u8 in groups 2048x4096x4096"),
    ("rocm:gfx90a", "matmul f64 2048x2048x2048"),
    ("rocm:gfx942", "matmul f8 4096x4096x4096"),
    ("rocm:gfx942", "matmul f16 4095x4097x4093"),
    ("rocm:gfx950", "matmul f8 of AMD 4096x4096x4096"),
    ("rocm:gfx1100", "matmul f16*u8 in groups 2048x4096x4096"),
    ("rocm:gfx1100", "matmul i8 4096x4096x4096"),
    ("rocm:gfx1102", "matmul f16*u8 in groups 2048x4096x4096"),
    ("rocm:gfx1201", "matmul i8 4096x4096x4096"),
    ("rocm:gfx1250", "matmul f32 4096x4096x4096"),
]


def test_every_chip_is_compiled_for():
    names = {chip.name for chip in gpu_chips()}
    assert names == set(BEYOND) == {chip.partition(":")[2] for chip, _ in COMPILED}


@pytest.mark.costly
@pytest.mark.parametrize(("chip", "case"), COMPILED)
def test_what_is_foreseen_is_near_what_compilers_take(chip, case):
    op, target = CASES[case](), make_target(chip)
    matrices = ContractionMatrices(op)
    types = multiplied_types(*map(op.factor_dtype, SIDES), op.accumulator_dtype, target)
    shape = matrices.shape(types)
    config = matmul_config(shape, target)
    foreseen = MatmulRegisters(plan_matmul(shape, target, config)).total
    operands = MatrixOperands(matrices, shape)
    used = report(schedule_matmul(shape, target, config, operands), target)
    least, most = BEYOND[chip.partition(":")[2]]
    assert (used.spills, used.scratch_bytes) == (0, 0)
    assert least - SLACK <= used.registers - foreseen <= most + SLACK
