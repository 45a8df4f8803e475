"""Functions that have vector code here: operators, which TVM vectorizes.

A call by name stays what it is on GPUs, and where no loop is vectorized: TVM takes such a call for
one of a single number.  Some of TVM's own operators it computes lane by lane, in a loop of which
LLVM makes vectors in some places and not in others: after a product of open rows, gelu took 15 ns
an element with AVX2, and takes 3 as an operator of ours (384 x 512 by 512 x 1408, a Xeon).
"""

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.tir.function_body import with_body
from tvm_iree_ext.tir.pure_operators import pure_operator

ATANH, CBRT = "tvm_iree_ext.atanh", "tvm_iree_ext.cbrt"
"""Operators for the inverse hyperbolic tangent and the cube root."""

ERFC, EXPM1 = "tvm_iree_ext.erfc", "tvm_iree_ext.expm1"
"""Operators for ``1 - erf(x)`` and ``e^x - 1``."""

_BY_NAME = {
    **{"atanhf": ATANH, "cbrtf": CBRT, "erfcf": ERFC, "expm1f": EXPM1},
    **{"atanh": ATANH, "cbrt": CBRT, "erfc": ERFC, "expm1": EXPM1},  # of float64
}
_LANE_BY_LANE = "acos acosh asin asinh atan atan2 copysign erf log1p nearbyint rsqrt"
_OPERATORS = {f"tirx.{name}": f"tvm_iree_ext.{name}" for name in _LANE_BY_LANE.split()}
_FLOAT32_ALONE = ("tirx.copysign", "tirx.nearbyint", "tirx.rsqrt")
"""Those of which there is no vector code of float64."""

_OF_TVM = {ours: name for name, ours in _OPERATORS.items()}
_EXTERN = ir.Op.get("tirx.call_pure_extern")

for _name in {*_BY_NAME.values(), *_OPERATORS.values()}:
    pure_operator(_name, "A function of each element, computed by vector code.")


def is_vector_function(call: ir.Call) -> bool:
    """Whether a call is one by name that has vector code."""
    return bool(call.op.same_as(_EXTERN)) and str(call.args[0].value) in _BY_NAME


def function_name(call: ir.Call) -> str:
    """The name of a call's operator, by TVM's where it has the function; empty for what is none."""
    name = getattr(call.op, "name", "")
    return _OF_TVM.get(name, name)


def as_of_tvm(call: ir.Call) -> ir.Call | None:
    """The call of TVM's operator for one of ours, which LLVM has instructions for; None for others.

    Ours may be of vectors.
    """
    name = function_name(call)
    is_ours = name != getattr(call.op, "name", "")
    return ir.Call(ir.Op.get(name), list(call.args), ret_ty=call.ty) if is_ours else None


BY_LIBRARY = "tvm_iree_ext.float64_by_library"
"""Attribute of a PrimFunc whose functions of float64 are the C library's."""


@tirx.transform.prim_func_pass(opt_level=0)
def name_vector_functions(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Make operators that TVM vectorizes, before loops are vectorized."""
    by_library = BY_LIBRARY in dict(func.attrs or {})

    def named(call: ir.Call) -> ir.Call:
        if by_library and str(getattr(call.ty, "dtype", "")) == "float64":
            return call
        if is_vector_function(call):
            operator = ir.Op.get(_BY_NAME[str(call.args[0].value)])
            return ir.Call(operator, list(call.args[1:]), ret_ty=call.ty)
        name = getattr(call.op, "name", "")
        ours = _OPERATORS.get(name)
        types = ("float32",) if name in _FLOAT32_ALONE else ("float32", "float64")
        if ours is None or str(call.ty.dtype) not in types:
            return call
        return ir.Call(ir.Op.get(ours), list(call.args), ret_ty=call.ty)

    return with_body(func, tvm_ffi.structural_map(func.body, (ir.Call, named)))
