"""Pieces of CPU kernels for several families: stores, strides, lanes, tasks."""
