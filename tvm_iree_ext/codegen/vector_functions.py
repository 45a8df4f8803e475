"""Functions of the C library that have vector code here: operators, which TVM vectorizes.

A call by name stays what it is on GPUs, and where no loop is vectorized: TVM takes such a call for
one of a single number.
"""

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import _ffi_api

from tvm_iree_ext.tir.function_body import with_body

ATANH, CBRT = "tvm_iree_ext.atanh", "tvm_iree_ext.cbrt"
"""Operators for the inverse hyperbolic tangent and the cube root."""

ERFC, EXPM1 = "tvm_iree_ext.erfc", "tvm_iree_ext.expm1"
"""Operators for ``1 - erf(x)`` and ``e^x - 1``."""

_BY_NAME = {"atanhf": ATANH, "cbrtf": CBRT, "erfcf": ERFC, "expm1f": EXPM1}
_EXTERN = ir.Op.get("tirx.call_pure_extern")
_PURE = 1  # TVM's CallEffectKind::kPure

for _name in _BY_NAME.values():
    _ffi_api.RegisterOp(_name, "A function of each element, computed by vector code.")
    ir.register_op_attr(_name, "TVectorizable", True)
    ir.register_op_attr(_name, "TCallEffectKind", _PURE)


def is_vector_function(call: ir.Call) -> bool:
    """Whether a call is one by name that has vector code."""
    return bool(call.op.same_as(_EXTERN)) and str(call.args[0].value) in _BY_NAME


@tirx.transform.prim_func_pass(opt_level=0)
def name_vector_functions(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Make operators of calls by name, before loops are vectorized."""

    def named(call: ir.Call) -> ir.Call:
        if not is_vector_function(call):
            return call
        operator = ir.Op.get(_BY_NAME[str(call.args[0].value)])
        return ir.Call(operator, list(call.args[1:]), ret_ty=call.ty)

    return with_body(func, tvm_ffi.structural_map(func.body, (ir.Call, named)))
