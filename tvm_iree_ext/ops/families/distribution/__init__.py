"""to_simt, to_simd and to_layout: op and canonical TensorIR."""
