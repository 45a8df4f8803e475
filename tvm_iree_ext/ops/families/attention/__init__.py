"""Attention and online attention: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.attention.attention_canonical  # noqa: F401
