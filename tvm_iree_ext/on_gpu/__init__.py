"""What an archive runs on the machine with the GPU: Python, NumPy and the driver are enough."""
