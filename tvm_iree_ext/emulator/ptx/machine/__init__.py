"""What executes PTX: lanes, memory, barriers, and what is under way."""
