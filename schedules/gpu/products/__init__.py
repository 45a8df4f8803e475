"""Tiled matrix products: tiles, plans, registers, stream-K, warpgroups."""
