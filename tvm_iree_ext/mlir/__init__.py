"""IREE's IR in, a Relax module out: reading, importing, and the programs that come of it.

>>> from tvm_iree_ext import mlir                             # doctest: +SKIP
>>> imported = mlir.import_program("model.mlir")
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_iree_ext.mlir import form
    from tvm_iree_ext.mlir.imported import Check, EntryPoint, Imported
    from tvm_iree_ext.mlir.importer import import_module
    from tvm_iree_ext.mlir.program import import_program
    from tvm_iree_ext.mlir.reader import read

__all__ = [
    "Check",
    "EntryPoint",
    "Imported",
    "form",
    "import_module",
    "import_program",
    "read",
]

_HOME = {
    "Check": "imported",
    "EntryPoint": "imported",
    "Imported": "imported",
    "import_module": "importer",
    "import_program": "program",
    "read": "reader",
}


def __getattr__(name: str) -> Any:
    # The process that parses imports modules of this package, and no TVM.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOME.get(name, name)}")
    value = getattr(module, name) if name in _HOME else module
    globals()[name] = value
    return value
