"""How a program's tensors lie between its kernels."""
