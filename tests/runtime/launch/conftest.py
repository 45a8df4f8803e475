"""A GPU's driver whose launches are run by the simulator, and a product for it."""

from dataclasses import replace

import pytest
from fake_gpu import compiled, driver_library, gpu

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import make_target

__all__ = ["compiled", "driver_library", "gpu"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A product in two parts, which takes a workspace and two launches, and its kernels."""
    target = make_target("rocm:gfx942")
    op = ops.matmul(("n", 64), (64, 16))
    rule = choose(op, target)
    config = replace(rule.heuristic(op, target), splits=2)
    folder = tmp_path_factory.mktemp("matmul") / "matmul"
    ext.build(op, target, config, folder=folder)
    code = compile_device(rule.lower(op, target, config), target)
    return folder, {str(name.name_hint): one for name, one in code.module.functions.items()}
