"""transfer_gather and transfer_scatter: op and canonical TensorIR."""
