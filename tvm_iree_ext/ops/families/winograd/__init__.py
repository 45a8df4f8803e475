"""The Winograd transforms: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.winograd.winograd_canonical  # noqa: F401
