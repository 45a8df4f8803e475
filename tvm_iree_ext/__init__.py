"""IREE's LinalgExt and VectorExt ops, NestedLayout and the MLIR vector patterns, on Apache TVM.

>>> import tvm_iree_ext as ext                               # doctest: +SKIP
>>> op = ext.ops.attention((1, 8, 1024, 64), (1, 8, 1024, 64), (1, 8, 1024, 64))
>>> kernel = ext.build(op)
>>> result = kernel(query, key, value)

What needs TVM is imported when it is first used, so that a deployment, which has the TVM runtime
alone, can use :func:`load`.
"""

from typing import TYPE_CHECKING

from tvm_iree_ext.base import late_torch
from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext import (
        accuracy,
        bench,
        conformance,
        doctor,
        emulator,
        frontends,
        gpu_day,
        inspection,
        layout,
        mlir,
        ops,
        program_checks,
        random_programs,
        records,
        reference,
        registry,
        schedules,
        simulator,
        support,
        targets,
        tuning,
        vector,
        verify,
    )
    from tvm_iree_ext.api import build, lower
    from tvm_iree_ext.base import errors
    from tvm_iree_ext.base.lowering_config import LoweringConfig
    from tvm_iree_ext.base.signature import TensorType
    from tvm_iree_ext.base.versions import __version__
    from tvm_iree_ext.frontends.jax.jax_functions import from_jax
    from tvm_iree_ext.frontends.onnx.onnx_models import from_onnx
    from tvm_iree_ext.frontends.torch.torch_modules import from_torch
    from tvm_iree_ext.programs import relax
    from tvm_iree_ext.programs.program_build import build_program
    from tvm_iree_ext.programs.program_explanation import explain_program
    from tvm_iree_ext.runtime.call_times import CallTimes, measure_calls
    from tvm_iree_ext.runtime.kernel import Kernel
    from tvm_iree_ext.runtime.program import Program, load
    from tvm_iree_ext.runtime.tvm_runtime import available_processors, set_num_threads, threads
    from tvm_iree_ext.vector.stages_for_target import vector_stages

__all__ = [
    "CallTimes",
    "Kernel",
    "LoweringConfig",
    "Program",
    "TensorType",
    "__version__",
    "accuracy",
    "available_processors",
    "bench",
    "build",
    "build_program",
    "conformance",
    "doctor",
    "emulator",
    "errors",
    "explain_program",
    "from_jax",
    "from_onnx",
    "from_torch",
    "frontends",
    "gpu_day",
    "inspection",
    "layout",
    "load",
    "lower",
    "measure_calls",
    "mlir",
    "ops",
    "program_checks",
    "random_programs",
    "records",
    "reference",
    "registry",
    "relax",
    "schedules",
    "set_num_threads",
    "simulator",
    "support",
    "targets",
    "threads",
    "tuning",
    "vector",
    "vector_stages",
    "verify",
]

_MODULES = {
    "api": ("build", "lower"),
    "base.errors": ("errors",),
    "base.signature": ("TensorType",),
    "base.versions": ("__version__",),
    "frontends.jax.jax_functions": ("from_jax",),
    "frontends.torch.torch_modules": ("from_torch",),
    "frontends.onnx.onnx_models": ("from_onnx",),
    "programs.program_build": ("build_program",),
    "programs.program_explanation": ("explain_program",),
    "programs.relax": ("relax",),
    "runtime.call_times": ("CallTimes", "measure_calls"),
    "runtime.kernel": ("Kernel",),
    "runtime.program": ("Program", "load"),
    "runtime.tvm_runtime": ("available_processors", "set_num_threads", "threads"),
    "base.lowering_config": ("LoweringConfig",),
    "vector.stages_for_target": ("vector_stages",),
}

late_torch.install()
__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
