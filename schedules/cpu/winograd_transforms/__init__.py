"""Winograd transforms of tiles on CPUs, for all that use them."""
