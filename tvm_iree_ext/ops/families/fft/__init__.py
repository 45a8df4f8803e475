"""Fourier transforms: butterfly stages, and whole ones: op and canonical TensorIR."""
