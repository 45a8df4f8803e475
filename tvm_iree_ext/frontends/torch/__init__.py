"""PyTorch's modules, exported and compiled: to the torch dialect, with weights beside it."""
