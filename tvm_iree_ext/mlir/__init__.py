"""IREE's IR in, a Relax module out: reading, importing, and the programs that come of it."""
