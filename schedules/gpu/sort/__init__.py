"""Sorts on GPUs."""
