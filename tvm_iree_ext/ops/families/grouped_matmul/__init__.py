"""Grouped products: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.grouped_matmul.grouped_matmul_canonical  # noqa: F401
