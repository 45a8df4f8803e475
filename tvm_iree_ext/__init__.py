"""IREE's LinalgExt and VectorExt ops, NestedLayout and the MLIR vector patterns, on Apache TVM.

>>> import tvm_iree_ext as ext                               # doctest: +SKIP
>>> op = ext.ops.attention((1, 8, 1024, 64), (1, 8, 1024, 64), (1, 8, 1024, 64))
>>> kernel = ext.build(op)
>>> result = kernel(query, key, value)

What needs TVM is imported when it is first used, so that a deployment, which has the TVM runtime
alone, can use :func:`load`.
"""

from typing import TYPE_CHECKING

from tvm_iree_ext.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext import (
        bench,
        doctor,
        frontends,
        fuzz,
        gpu_sweep,
        gpu_table,
        inspected,
        layout,
        mlir,
        ops,
        program_checks,
        random_programs,
        record,
        record_files,
        recorded,
        reference,
        registry,
        simt,
        simulated,
        support,
        tuning,
        vector,
        verify,
    )
    from tvm_iree_ext.building import build
    from tvm_iree_ext.example_programs import vector_stages
    from tvm_iree_ext.frontends import from_jax, from_torch
    from tvm_iree_ext.kernel import Kernel
    from tvm_iree_ext.program import Program, load
    from tvm_iree_ext.program_builder import build_program
    from tvm_iree_ext.runtime import available_processors, set_num_threads, threads
    from tvm_iree_ext.schedules.config import LoweringConfig
    from tvm_iree_ext.signature import TensorType

__all__ = [
    "Kernel",
    "LoweringConfig",
    "Program",
    "TensorType",
    "available_processors",
    "bench",
    "build",
    "build_program",
    "doctor",
    "from_jax",
    "from_torch",
    "frontends",
    "fuzz",
    "gpu_sweep",
    "gpu_table",
    "inspected",
    "layout",
    "load",
    "mlir",
    "ops",
    "program_checks",
    "random_programs",
    "record",
    "record_files",
    "recorded",
    "reference",
    "registry",
    "set_num_threads",
    "simt",
    "simulated",
    "support",
    "threads",
    "tuning",
    "vector",
    "vector_stages",
    "verify",
]

_HOME = {
    "Kernel": "kernel",
    "LoweringConfig": "schedules.config",
    "Program": "program",
    "TensorType": "signature",
    "available_processors": "runtime",
    "build": "building",
    "build_program": "program_builder",
    "from_jax": "frontends",
    "from_torch": "frontends",
    "load": "program",
    "set_num_threads": "runtime",
    "threads": "runtime",
    "vector_stages": "example_programs",
}


__getattr__, __dir__ = on_demand(globals(), __all__, _HOME)
