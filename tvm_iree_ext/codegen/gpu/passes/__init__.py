"""TIR passes for GPU kernels, one a file."""
