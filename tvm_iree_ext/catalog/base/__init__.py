"""The entry of an op, and random operands, epilogues and comparators for any."""
