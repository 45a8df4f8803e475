"""How cases are checked and timed, and what else kernels cost."""
