"""The ops of the dialects: checks, result types, canonical PrimFuncs."""
