"""What all GPU rules share."""
