"""JAX functions, PyTorch modules and models of ONNX as programs, through front ends."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.frontends.jax_and_torch import (
        from_jax,
        from_torch,
        import_jax,
        import_lowered,
        import_torch,
    )
    from tvm_iree_ext.frontends.onnx_models import from_onnx, import_onnx
    from tvm_iree_ext.frontends.onnx_support import support_onnx
    from tvm_iree_ext.frontends.torch_compile import torch_backend
    from tvm_iree_ext.frontends.torch_support import read_exported, support_torch

__all__ = [
    "from_jax",
    "from_onnx",
    "from_torch",
    "import_jax",
    "import_lowered",
    "import_onnx",
    "import_torch",
    "read_exported",
    "support_onnx",
    "support_torch",
    "torch_backend",
]

_MODULES = {
    "jax_and_torch": ("from_jax", "from_torch", "import_jax", "import_lowered", "import_torch"),
    "onnx_models": ("from_onnx", "import_onnx"),
    "onnx_support": ("support_onnx",),
    "torch_compile": ("torch_backend",),
    "torch_support": ("read_exported", "support_torch"),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
