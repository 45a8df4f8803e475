"""IREE's IR in, a Relax module out: reading, importing, and the programs that come of it.

>>> from tvm_iree_ext import mlir                             # doctest: +SKIP
>>> imported = mlir.import_program("model.mlir")
"""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.mlir.from_file import import_program
    from tvm_iree_ext.mlir.importer import import_module
    from tvm_iree_ext.mlir.importing.imported import Check, EntryPoint, Imported
    from tvm_iree_ext.mlir.reading import form
    from tvm_iree_ext.mlir.reading.reader import read

__all__ = [
    "Check",
    "EntryPoint",
    "Imported",
    "form",
    "import_module",
    "import_program",
    "read",
]

_MODULES = {
    "from_file": ("import_program",),
    "importer": ("import_module",),
    "importing.imported": ("Check", "EntryPoint", "Imported"),
    "reading.form": ("form",),
    "reading.reader": ("read",),
}


# The process that parses imports modules of this package, and no TVM.
__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
