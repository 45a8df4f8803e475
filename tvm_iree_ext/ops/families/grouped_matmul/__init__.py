"""Grouped products: op and canonical TensorIR."""
