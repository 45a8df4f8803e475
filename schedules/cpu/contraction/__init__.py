"""Contractions on CPUs."""
