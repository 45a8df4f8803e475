"""Windows of convolutions as rows of a matrix."""
