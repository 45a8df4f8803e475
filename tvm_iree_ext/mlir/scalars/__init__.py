"""Scalar operations and regions as TIR expressions."""
