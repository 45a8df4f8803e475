"""Fourier transforms, whole and in butterfly stages: op and canonical TensorIR."""
