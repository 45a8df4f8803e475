"""PTX text, read."""
