"""TVM's modules for ops, each imported when something of it is first used.

An op is checked, described and found in the cache without TVM, whose import takes longer than all
of that.  A module that uses these names has ``from __future__ import annotations``: its
annotations must not be evaluated.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tvm_ffi
    from tvm import ir, tirx
    from tvm.script import ir_builder
    from tvm.tirx.script import builder as I

__all__ = ["I", "ir", "ir_builder", "tirx", "tvm_ffi"]


class LateModule:
    """A module that is imported when an attribute of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        importlib.import_module("tvm_iree_ext.base.ffi_errors")  # errors keep their class
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)  # found from now on without coming here
        return value


if not TYPE_CHECKING:
    I = LateModule("tvm.tirx.script.builder")  # noqa: E741 - its name in all of TVM
    ir = LateModule("tvm.ir")
    ir_builder = LateModule("tvm.script.ir_builder")
    tirx = LateModule("tvm.tirx")
    tvm_ffi = LateModule("tvm_ffi")
