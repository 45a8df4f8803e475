"""From an op to a kernel."""
