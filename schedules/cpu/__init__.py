"""Schedule rules for LLVM CPU targets."""
