"""The Winograd transforms on CPUs, and products with transformed filters."""
