"""Products of register tiles: multiply-adds, dot products, AMX."""
