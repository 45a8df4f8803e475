"""GPU kernels launched from their plan, in Python by the driver, and in C++."""
