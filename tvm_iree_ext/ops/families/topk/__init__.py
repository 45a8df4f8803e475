"""Top-k in both forms of the dialect: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.topk.topk_canonical  # noqa: F401
