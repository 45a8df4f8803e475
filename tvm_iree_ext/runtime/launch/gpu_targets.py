"""Targets that are GPUs: the chip that one names, and whether its kernels run here."""

from collections.abc import Mapping
from typing import Any

from tvm_iree_ext.runtime.launch.driver import DriverError, Gpu
from tvm_iree_ext.runtime.launch.driver_answers import chip_of_gpu
from tvm_iree_ext.runtime.launch.launch_contract import chip_obstacle

DLPACK_DEVICES = {"cuda": 2, "rocm": 10}
"""DLPack's numbers of the kinds of target that are GPUs."""


def chip_of(target: Mapping[str, Any]) -> str:
    """The chip that a target as plain JSON names."""
    return str(target.get("arch", target.get("mcpu", "")))


def gpu_obstacle(kind: str, chip: str) -> str:
    """Why kernels for a chip do not run here, for a message; empty when they do."""
    try:
        found = chip_of_gpu(Gpu(kind))
    except DriverError as error:
        return f"target {kind}:{chip}: {error}"
    if chip_obstacle(chip, found):
        return f"target {kind}:{chip}: the GPU here is {found}"
    return ""
