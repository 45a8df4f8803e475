"""Kernels on GPUs that move elements, a lane for each."""
