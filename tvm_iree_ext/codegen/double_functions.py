"""The functions of float64 that are computed here, by the operator that is lowered.

They are within 1 unit in the last place, most within 0.6, by double-double arithmetic: what is
rounded twice in float64 shows in the last digit, so sums, products and quotients that a result
hangs on keep what they are rounded by, and polynomials give only what is small beside them.
Special values are those of C.  ``scripts/fit_math.py`` prints the polynomials; the number behind
each is its relative error.
"""

from collections.abc import Callable

from tvm_iree_ext.codegen import (
    double_angles,
    double_arcs,
    double_errors,
    double_exponentials,
    double_logarithms,
    double_powers,
    double_roots,
)
from tvm_iree_ext.codegen.math_calls import Rarely
from tvm_iree_ext.codegen.polynomials import Expr
from tvm_iree_ext.codegen.vector_functions import ATANH, CBRT, ERFC, EXPM1

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
}
"""Functions of their arguments, a Share, and whether a multiply-add is an instruction."""
