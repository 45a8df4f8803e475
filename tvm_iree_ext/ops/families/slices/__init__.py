"""Gather and scatter: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.slices.slices_canonical  # noqa: F401
