"""Drawing of random programs, and their meaning in NumPy."""
