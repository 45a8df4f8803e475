"""What each op means, in NumPy: slow and obvious."""
