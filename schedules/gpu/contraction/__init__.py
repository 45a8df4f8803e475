"""Contractions on GPUs."""
