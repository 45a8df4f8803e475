"""Fourier transforms, whole and in butterfly stages: op and canonical TensorIR."""

# Registers the canonical TensorIR.
import tvm_iree_ext.ops.families.fft.fft_canonical  # noqa: F401
