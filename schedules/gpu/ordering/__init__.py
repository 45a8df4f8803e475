"""Sorting on GPUs, for every family that sorts: compares, networks, merges, tiles."""
