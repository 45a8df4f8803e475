"""TensorIntrins: matrix instructions generated from the MMA table."""
