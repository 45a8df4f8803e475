"""TVM's pipeline for CPUs with what TVM 0.27 needs mended."""
