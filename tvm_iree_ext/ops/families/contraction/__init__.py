"""Contractions: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.contraction.contraction_canonical  # noqa: F401
