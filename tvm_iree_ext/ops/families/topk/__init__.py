"""Top-k in both forms of the dialect: op and canonical TensorIR."""
