"""The vector form itself: values, operations, types, and what they mean in NumPy."""
