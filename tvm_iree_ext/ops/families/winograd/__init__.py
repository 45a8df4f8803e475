"""The Winograd transforms: op and canonical TensorIR."""
