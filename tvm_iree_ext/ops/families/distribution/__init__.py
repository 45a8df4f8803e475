"""to_simt, to_simd and to_layout: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.distribution.distribution_canonical  # noqa: F401
