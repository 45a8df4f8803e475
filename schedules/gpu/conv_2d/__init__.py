"""Convolutions on GPUs."""
