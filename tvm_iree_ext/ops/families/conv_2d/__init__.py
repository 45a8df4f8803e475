"""Convolutions: op and canonical TensorIR."""
