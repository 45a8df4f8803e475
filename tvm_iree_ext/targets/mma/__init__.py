"""The table of matrix instructions, and the layouts of their operands."""
