"""A workgroup: lanes, registers, memory, barriers, matrix instructions."""
