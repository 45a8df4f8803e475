"""Registers that are foreseen of attention, beside those that compilers report."""

import pytest
from register_reports import report

from tvm_iree_ext.inspection.resource_sweep_cases import CASES
from tvm_iree_ext.schedules.gpu.attention.attention_heuristic import attention_config
from tvm_iree_ext.schedules.gpu.attention.attention_kernel import attention_kernel
from tvm_iree_ext.schedules.gpu.attention.attention_planning import plan_attention
from tvm_iree_ext.schedules.gpu.attention.attention_registers import BEYOND, attention_registers
from tvm_iree_ext.targets.gpu import gpu_chips
from tvm_iree_ext.targets.names import make_target

SLACK = 8  # registers: what another release of a compiler may take more, or fewer

# Of each chip a kernel, or two: where the compiler is the furthest from what is foreseen.
COMPILED = [
    ("cuda:sm_80", "online_attention f32 8x200x512x17, value 65"),
    ("cuda:sm_86", "attention f32 8x1000x999x65, value 65"),
    ("cuda:sm_89", "attention f32 8x1000x999x65, value 65"),
    ("cuda:sm_90", "online_attention f32 8x200x512x17, value 65"),
    ("cuda:sm_100", "attention f32 8x1000x999x65, value 65"),
    ("cuda:sm_110", "attention f16 8x1024x1024x40, value 65"),
    ("cuda:sm_120", "attention f32 8x1000x999x65, value 65"),
    ("rocm:gfx908", "attention f64 4x512x512x64"),
    ("rocm:gfx90a", "online_attention f32 8x200x512x17, value 65"),
    ("rocm:gfx942", "attention f16 8x1025x999x64, f32 mask"),
    ("rocm:gfx950", "attention f16 8x1024x1024x256"),
    ("rocm:gfx1100", "attention f64 4x512x512x64"),
    ("rocm:gfx1102", "attention f64 4x512x512x64"),
    ("rocm:gfx1201", "online_attention f32 8x200x512x17, value 65"),
    ("rocm:gfx1250", "attention f16 decode 32x1x8192x128"),
]


def test_every_chip_is_compiled_for():
    names = {chip.name for chip in gpu_chips()}
    assert names == set(BEYOND) == {chip.partition(":")[2] for chip, _ in COMPILED}


@pytest.mark.costly
@pytest.mark.parametrize(("chip", "case"), COMPILED)
def test_what_is_foreseen_is_near_what_compilers_take(chip, case):
    op, target = CASES[case](), make_target(chip)
    plan = plan_attention(op, target, attention_config(op, target))
    used = report(attention_kernel(plan), target)
    least, most = BEYOND[chip.partition(":")[2]]
    assert (used.spills, used.scratch_bytes) == (0, 0)
    assert least - SLACK <= used.registers - attention_registers(plan) <= most + SLACK
