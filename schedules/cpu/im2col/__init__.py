"""Windows of convolutions as rows, on CPUs."""
