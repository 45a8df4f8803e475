"""arg_compare of both dialects: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.arg_compare.arg_compare_canonical  # noqa: F401
