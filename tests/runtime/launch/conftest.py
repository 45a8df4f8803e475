"""A GPU's driver whose launches are run by the simulator."""

from fake_gpu import compiled, driver_library, gpu

__all__ = ["compiled", "driver_library", "gpu"]
