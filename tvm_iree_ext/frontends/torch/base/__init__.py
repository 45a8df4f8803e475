"""What operators of PyTorch are made of by others: bits, loops, scalars of MLIR."""
