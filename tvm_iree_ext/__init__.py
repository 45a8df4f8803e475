"""IREE's LinalgExt and VectorExt ops, NestedLayout and the MLIR vector patterns, on Apache TVM."""
