"""Contractions: op and canonical TensorIR."""
