"""Pieces of GPU kernels for several families: launches, registers, functions."""
