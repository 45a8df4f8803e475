"""The base of GPU rules."""
