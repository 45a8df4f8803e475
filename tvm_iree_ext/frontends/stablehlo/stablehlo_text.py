"""The text of StableHLO, in words that IREE's front end takes and computes rightly."""

from tvm_iree_ext.frontends.lapack.jax_lapack import without_lapack
from tvm_iree_ext.frontends.stablehlo.stablehlo_complex import complex_operations
from tvm_iree_ext.frontends.stablehlo.stablehlo_extremes import exact_extremes
from tvm_iree_ext.frontends.stablehlo.stablehlo_forms import taken_forms
from tvm_iree_ext.frontends.stablehlo.stablehlo_transforms import declared_transforms
from tvm_iree_ext.frontends.stablehlo.stablehlo_unsigned import (
    refuse_unsigned_products,
    widened_by_signed,
)


def taken_text(text: str) -> str:
    """The text of a module in forms that are taken, with ops of ours declared.

    Raises:
        MlirError: for what IREE would compute wrongly.
    """
    refuse_unsigned_products(text)
    text = widened_by_signed(without_lapack(text))
    return declared_transforms(complex_operations(taken_forms(exact_extremes(text))))
