"""Gather and scatter on CPUs."""
