"""Whole programs of PyTorch and JAX beside what else runs them."""
