"""Programs of the vector form, and how they are written in Python."""
