"""Scans on GPUs."""
