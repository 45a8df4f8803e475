"""transfer_gather and transfer_scatter: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.transfer.transfer_canonical  # noqa: F401
