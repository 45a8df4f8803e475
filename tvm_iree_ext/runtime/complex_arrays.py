"""Complex arrays of callers: a program takes and gives each as two arrays, its parts."""

from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import COMPLEX_PARTS
from tvm_iree_ext.runtime.arrays import NUMBERS, Port, as_tensor
from tvm_iree_ext.runtime.torch_arrays import torch_module


def parts(port: Port, value: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of what a caller brings for a complex operand.

    Both are of the kind that came, or NumPy's; for a number they are arrays of rank 0.

    Raises:
        CallError: as :meth:`~tvm_iree_ext.runtime.arrays.Port.take`.
    """
    torch = torch_module()
    if port.is_scalar or (port.has_one_element and type(value) in NUMBERS):
        value = np.asarray(port.number(value), port.numpy)
    elif torch is not None and isinstance(value, torch.Tensor):
        port.check_torch(value, torch)
        return torch.real(value), torch.imag(value)
    elif isinstance(value, np.generic):
        value = np.asarray(value)
    elif not isinstance(value, np.ndarray):
        value = port.read_dlpack(value, np.from_dlpack)  # tvm_ffi has no name for the dtype
    port.check_numpy(value)
    return value.real, value.imag


def joined(real: Any, imaginary: Any) -> Any:
    """A new array of two parts, of the kind that these are."""
    torch = torch_module()
    if torch is not None and isinstance(real, torch.Tensor):
        return torch.complex(real, imaginary)
    if not isinstance(real, np.ndarray):
        return as_tensor(joined(np.from_dlpack(real), np.from_dlpack(imaginary)))
    (dtype,) = (name for name, part in COMPLEX_PARTS.items() if part == real.dtype)
    array = np.empty(real.shape, dtype)
    array.real, array.imag = real, imaginary
    return array
