"""Findings, and the memory traffic of accesses."""
