"""GPU kernels from scheduled TensorIR: passes, compilers, and what the compilers report."""
