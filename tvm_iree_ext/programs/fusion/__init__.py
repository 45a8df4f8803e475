"""What becomes one kernel of the registry's among a program's operations."""
