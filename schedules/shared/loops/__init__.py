"""Plain loops of imported programs on any target: nests, fusion, guards, strides."""
