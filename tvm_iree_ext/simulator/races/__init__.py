"""Data races: accesses of lanes that nothing orders."""
