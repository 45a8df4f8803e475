"""What kernels are timed beside."""
