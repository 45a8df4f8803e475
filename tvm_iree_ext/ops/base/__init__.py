"""Parts that the ops of all families share: operand types, indexing maps, regions, padding."""
