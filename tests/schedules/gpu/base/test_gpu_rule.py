"""GPU rules: for their ops on GPUs of both vendors, and for nothing else."""

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.schedules.gpu.pack_rule import GpuPack
from tvm_iree_ext.schedules.gpu.scan.scan_rule import GpuScan
from tvm_iree_ext.targets.names import make_target

PACK = ops.pack((8,), inner_dims_pos=[0], inner_tiles=[4])
SCAN = ops.scan(TensorType((64,), "float32"), dimension=0, inclusive=True)


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_a_rule_serves_both_vendors(target):
    assert GpuPack().applies(PACK, make_target(target)) is None


def test_another_op_or_target_is_told_apart():
    assert GpuPack().applies(SCAN, make_target("cuda:sm_80")) == (
        "iree_linalg_ext.scan is not Packing"
    )
    assert GpuScan().applies(SCAN, make_target("llvm")) == "llvm is not a GPU target"


def test_refusals_name_the_rule():
    with pytest.raises(ScheduleError, match=r"^gpu\.scan"):
        GpuScan().check(LoweringConfig(algorithm="no such")).algorithm("rows")
