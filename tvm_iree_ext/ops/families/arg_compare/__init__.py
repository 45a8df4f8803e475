"""arg_compare of both dialects: op and canonical TensorIR."""
