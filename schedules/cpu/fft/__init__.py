"""Fourier transforms on CPUs."""
