"""exp_reduction: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.exp_reduction.exp_reduction_canonical  # noqa: F401
