"""A model of time of GPUs' hot loops: instructions as they are issued, cycle by cycle."""
