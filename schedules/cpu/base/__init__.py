"""What all CPU rules share."""
