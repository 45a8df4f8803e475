"""What is emulated: ops, kernels and programs, built, exported, and launched by their plans."""
