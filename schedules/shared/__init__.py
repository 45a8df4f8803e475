"""A family's operands and plans, for the rules of CPUs and GPUs alike."""
