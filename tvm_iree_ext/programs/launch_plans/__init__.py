"""Launch plans of programs: the kernels of a function in order, its loops and its branches."""
