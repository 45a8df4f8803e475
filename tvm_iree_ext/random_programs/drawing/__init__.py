"""What random programs are drawn of, and what they mean in NumPy."""
