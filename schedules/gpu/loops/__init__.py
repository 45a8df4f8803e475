"""Plain loops of imported programs on GPUs."""
