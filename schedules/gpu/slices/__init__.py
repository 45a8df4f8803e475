"""Scatter on GPUs."""
