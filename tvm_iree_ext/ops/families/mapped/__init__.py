"""map_load and map_store: op and canonical TensorIR."""
