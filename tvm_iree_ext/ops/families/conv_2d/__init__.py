"""Convolutions: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.conv_2d.conv_2d_canonical  # noqa: F401
