"""PyTorch's factors of matrices, systems, eigenvalues and singular values."""
