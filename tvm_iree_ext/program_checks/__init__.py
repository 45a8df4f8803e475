"""Programs run on recorded arrays, as tests; and texts of MLIR mutated."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.program_checks import mlir_fuzz, program_suite
    from tvm_iree_ext.program_checks.noise_arguments import noise
    from tvm_iree_ext.program_checks.recorded_arrays import (
        arguments,
        differences,
        read_arrays,
        write_arrays,
    )

__all__ = [
    "arguments",
    "differences",
    "mlir_fuzz",
    "noise",
    "program_suite",
    "read_arrays",
    "write_arrays",
]

_MODULES = {
    "noise_arguments": ("noise",),
    "recorded_arrays": ("arguments", "differences", "read_arrays", "write_arrays"),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
