"""PyTorch's special functions: gamma, error and Bessel functions, and polynomials."""
