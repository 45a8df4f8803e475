"""custom_op: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.custom_op.custom_op_canonical  # noqa: F401
