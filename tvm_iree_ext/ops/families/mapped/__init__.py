"""map_load and map_store: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.mapped.mapped_canonical  # noqa: F401
