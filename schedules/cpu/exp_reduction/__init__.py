"""exp_reduction on CPUs."""
