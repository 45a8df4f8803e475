"""Schedule rules for CUDA and ROCm targets."""
