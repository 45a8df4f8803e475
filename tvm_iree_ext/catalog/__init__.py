"""Entries of the registry, a file for each op family: op, reference, tolerance and cases."""
