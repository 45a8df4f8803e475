"""Fourier transforms: butterfly stages, and whole ones: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.fft.fft_canonical  # noqa: F401
