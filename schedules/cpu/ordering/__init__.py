"""Sorting on CPUs, for every family that sorts: keys, networks, digits."""
