"""JAX functions, PyTorch modules and models of ONNX as programs, through front ends."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.frontends.jax.jax_functions import from_jax, import_jax
    from tvm_iree_ext.frontends.lowered_modules import import_lowered
    from tvm_iree_ext.frontends.onnx.onnx_models import from_onnx, import_onnx
    from tvm_iree_ext.frontends.onnx.onnx_support import support_onnx
    from tvm_iree_ext.frontends.torch.torch_compile import torch_backend
    from tvm_iree_ext.frontends.torch.torch_modules import from_torch, import_torch
    from tvm_iree_ext.frontends.torch.torch_support import read_exported, support_torch

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
    "jax.jax_functions": ("from_jax", "import_jax"),
    "lowered_modules": ("import_lowered",),
    "onnx.onnx_models": ("from_onnx", "import_onnx"),
    "onnx.onnx_support": ("support_onnx",),
    "torch.torch_compile": ("torch_backend",),
    "torch.torch_modules": ("from_torch", "import_torch"),
    "torch.torch_support": ("read_exported", "support_torch"),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
