"""Gather and scatter: op and canonical TensorIR."""
