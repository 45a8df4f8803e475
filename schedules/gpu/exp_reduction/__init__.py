"""exp_reduction on GPUs."""
