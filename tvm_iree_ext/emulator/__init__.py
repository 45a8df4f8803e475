"""Machine code for GPUs executed on the CPU: what a driver is asked to launch, and runs here."""
