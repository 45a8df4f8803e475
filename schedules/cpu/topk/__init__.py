"""Top-k on CPUs."""
