"""PyTorch beside TVM: imported when somebody imports it, and not whenever TVM is.

``import tvm_ffi`` and ``import tvm`` import PyTorch wherever that is installed, which takes one to
three seconds, to prepare its tensors' way into TVM.  Here that is done once both are imported,
whichever comes first.  One thing needs PyTorch to come first: a ``torch.dtype`` as an argument of
tvm_ffi's own functions, whose table of them is in compiled code; nothing here passes one.
"""

import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_FFI, _TVM, _TORCH = "tvm_ffi", "tvm", "torch"


class LateTorch:
    """Finds TVM and PyTorch as others do, and adds to how they are executed."""

    def __init__(self) -> None:
        self._importing = threading.local()  # whether a thread imports TVM

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None but for these; for PyTorch while TVM asks for it an error.

        Raises:
            ModuleNotFoundError: in that case, as where it is not installed.
        """
        if fullname == _TORCH and getattr(self._importing, "tvm", False):
            raise ModuleNotFoundError("PyTorch is imported later", name=fullname)
        if fullname in (_FFI, _TVM) and _TORCH not in sys.modules:
            return self._found(fullname, path, target, self._execute_tvm)
        if fullname == _TORCH and _FFI in sys.modules:
            return self._found(fullname, path, target, _execute_torch)
        return None

    def _found(
        self,
        name: str,
        path: Sequence[str] | None,
        target: ModuleType | None,
        execute: Callable[[Callable[[ModuleType], None], ModuleType], None],
    ) -> ModuleSpec | None:
        """What the other finders find, to be executed by ``execute``."""
        for finder in sys.meta_path:
            if finder is self or (spec := finder.find_spec(name, path, target)) is None:
                continue
            if spec.loader is not None:
                loader: Any = spec.loader
                loader.exec_module = functools.partial(execute, loader.exec_module)
            return spec
        return None

    def _execute_tvm(self, usual: Callable[[ModuleType], None], module: ModuleType) -> None:
        before = getattr(self._importing, "tvm", False)
        self._importing.tvm = True
        try:
            usual(module)
        finally:
            self._importing.tvm = before
        if _is_imported(_TORCH):  # by another thread, meanwhile
            _join(sys.modules[_TORCH])


def _execute_torch(usual: Callable[[ModuleType], None], module: ModuleType) -> None:
    usual(module)
    if _is_imported(_FFI):
        _join(module)


def _is_imported(name: str) -> bool:
    """Whether a module is there, and no thread is still importing it: whoever does joins them."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


def _join(torch: ModuleType) -> None:
    """Do what TVM does for PyTorch when it is imported after that."""
    ffi, core, convert, extension = (
        sys.modules[f"{_FFI}{name}"]
        for name in ("", ".core", "._convert", "._optional_torch_c_dlpack")
    )

    def dtype(value: object) -> Any:
        return ffi.dtype(str(value).removeprefix("torch."))

    vars(core).update(torch=torch, _convert_torch_dtype_to_ffi_dtype=dtype)
    vars(convert).update(torch=torch)
    if os.environ.get("TVM_FFI_DISABLE_TORCH_C_DLPACK", "0") == "0":
        # Kept for as long as the module, as tvm_ffi keeps it.
        vars(extension).update(_LIB=extension.load_torch_c_dlpack_extension())
        extension.patch_torch_cuda_stream_protocol()
    if (python_modules := sys.modules.get(f"{_TVM}.relax.base_py_module")) is not None:
        vars(python_modules).update(to_dlpack_legacy=torch.utils.dlpack.to_dlpack)


def install() -> None:
    """Let PyTorch be imported late from now on; once is enough."""
    if not any(isinstance(finder, LateTorch) for finder in sys.meta_path):
        sys.meta_path.insert(
            0, LateTorch()
        )  # a finder by its methods: its base takes long to import
