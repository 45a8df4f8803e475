"""The functions of float64 that are computed here, by the operator that is lowered.

They are within 1 unit in the last place, most within 0.6, by double-double arithmetic: what is
rounded twice in float64 shows in the last digit, so sums, products and quotients that a result
hangs on keep what they are rounded by, and polynomials give only what is small beside them.
Special values are those of C.  ``scripts/fit_math.py`` prints the polynomials; the number behind
each is its relative error.
"""

from collections.abc import Callable

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.codegen import (
    double_angles,
    double_arcs,
    double_complex,
    double_errors,
    double_exponentials,
    double_logarithms,
    double_powers,
    double_roots,
)
from tvm_iree_ext.codegen.math_calls import Rarely
from tvm_iree_ext.codegen.polynomials import Expr
from tvm_iree_ext.codegen.vector_functions import (
    ATANH,
    BY_LIBRARY,
    CBRT,
    ERFC,
    EXPM1,
    is_vector_function,
)
from tvm_iree_ext.tir.power_rests import SIZE_REST, TURN_REST

LOWERINGS: dict[str, Callable[..., Expr | Rarely]] = {
    "tirx.acos": double_arcs.acos,
    "tirx.acosh": double_logarithms.acosh,
    "tirx.asin": double_arcs.asin,
    "tirx.asinh": double_logarithms.asinh,
    "tirx.atan": double_arcs.atan,
    "tirx.atan2": double_arcs.atan2,
    "tirx.cos": double_angles.cos,
    "tirx.cosh": double_exponentials.cosh,
    "tirx.erf": double_errors.erf,
    "tirx.log": double_logarithms.log,
    "tirx.log10": double_logarithms.log10,
    "tirx.log1p": double_logarithms.log1p,
    "prim.log2": double_logarithms.log2,
    "tirx.pow": double_powers.power,
    "tirx.sin": double_angles.sin,
    "tirx.sinh": double_exponentials.sinh,
    "tirx.tan": double_angles.tan,
    ATANH: double_logarithms.atanh,
    CBRT: double_roots.cbrt,
    ERFC: double_errors.erfc,
    EXPM1: double_exponentials.expm1,
    SIZE_REST: double_complex.power_size_rest,
    TURN_REST: double_complex.power_turn_rest,
}
"""Functions of their arguments, a Share, and whether a multiply-add is an instruction."""

_MOST_CALLS = 32
"""More calls than so many in a kernel are the C library's, since the code of each is long.

A sort whose region takes sines has hundreds; with vector code for each it took 270 s to build.
"""


@tirx.transform.prim_func_pass(opt_level=0)
def leave_many_to_library(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Mark functions that have too many calls; before calls by name become operators."""
    count = 0

    def see(call: ir.Call) -> None:
        nonlocal count
        is_ours = getattr(call.op, "name", "") in LOWERINGS or is_vector_function(call)
        count += is_ours and str(call.ty.dtype).startswith("float64")

    tvm_ffi.structural_walk(func.body, (ir.Call, see))
    return func.with_attr(BY_LIBRARY, True) if count > _MOST_CALLS else func
