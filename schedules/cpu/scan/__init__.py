"""Scans on CPUs."""
