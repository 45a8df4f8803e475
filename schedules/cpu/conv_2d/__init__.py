"""Convolutions on CPUs."""
