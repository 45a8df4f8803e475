"""Pack and unpack on CPUs."""
