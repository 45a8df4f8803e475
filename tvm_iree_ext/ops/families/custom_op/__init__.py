"""custom_op: op and canonical TensorIR."""
