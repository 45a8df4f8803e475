"""JAX's functions, lowered: StableHLO, with large constants beside it."""
