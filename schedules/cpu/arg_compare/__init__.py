"""arg_compare on CPUs."""
