"""PTX, as NVRTC makes it, executed: a reader, and an interpreter of many warps at once."""
