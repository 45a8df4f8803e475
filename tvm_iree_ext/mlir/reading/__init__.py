"""MLIR to plain Python values, by IREE's bindings in a process with limits."""
