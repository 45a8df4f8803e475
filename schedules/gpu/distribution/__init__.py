"""to_layout, to_simt and to_simd on GPUs."""
