"""What an epilogue loads stays behind the last product; without one nothing changes."""

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_device
from tvm_iree_ext.records.record_choice import lowered
from tvm_iree_ext.targets.names import make_target

HALF = "float16"
FENCE = "llvm.amdgcn.sched.barrier"


@pytest.mark.parametrize("chip", ["rocm:gfx942", "rocm:gfx1201"])
def test_loads_behind_the_last_product_stay_there(chip):
    scales = [ops.TensorType((32, 1), HALF)]
    plain, scaled = (
        ops.matmul((32, 64), (64, 32), others, dtype=HALF, **epilogue)
        for others, epilogue in (([], {}), (scales, {"epilogue": "arg0 * arg1"}))
    )
    assert FENCE not in text(plain, chip)
    before, behind = text(scaled, chip).split(FENCE)
    assert "mfma" in before or "wmma" in before
    assert "mfma" not in behind
    assert "wmma" not in behind
    assert "tvm_iree_ext_load" in behind


def text(op, chip):
    """The device code's TIR, from the kernel's first statement on."""
    target = make_target(chip)
    module, _ = lowered(op, target, None)
    return lower_device(module, target).script().partition("threadIdx")[2]
