"""Costs, counts and extents of programs of the vector form."""
