"""Plain loops of imported programs on CPUs."""
