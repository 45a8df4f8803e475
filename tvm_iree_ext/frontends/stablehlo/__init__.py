"""StableHLO as JAX and older tools write it, in forms that IREE's front end takes."""
