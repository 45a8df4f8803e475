"""Top-k on GPUs."""
