"""Operators of this package: pure functions of each element, which TVM vectorizes."""

from __future__ import annotations

from typing import Any

from tvm_iree_ext.tir.tvm_modules import ir

_PACKAGE = "tvm_iree_ext."
_PURE = 1  # TVM's CallEffectKind::kPure


def pure_operator(name: str, meaning: str) -> ir.Op:
    """The operator of a name, which the first call registers."""
    from tvm.ir import _ffi_api

    try:
        return ir.Op.get(name)
    except AttributeError:
        pass
    _ffi_api.RegisterOp(name, meaning)
    ir.register_op_attr(name, "TVectorizable", True)
    ir.register_op_attr(name, "TScriptPrinterName", name.rpartition(".")[2])
    ir.register_op_attr(name, "TCallEffectKind", _PURE)
    return ir.Op.get(name)


def is_pure_operator(node: Any) -> bool:
    """Whether a node is a call of one."""
    return getattr(getattr(node, "op", None), "name", "").startswith(_PACKAGE)
