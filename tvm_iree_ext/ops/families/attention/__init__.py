"""Attention and online attention: op and canonical TensorIR."""
