"""Sorts on CPUs."""
