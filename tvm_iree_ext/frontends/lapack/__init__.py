"""What JAX leaves to LAPACK, as loops and products in JAX."""
