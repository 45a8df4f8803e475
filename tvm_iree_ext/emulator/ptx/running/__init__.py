"""Kernels as blocks, and their execution."""
