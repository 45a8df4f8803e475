"""exp_reduction: op and canonical TensorIR."""
