"""Times of GPU kernels computed, where there is no GPU."""
