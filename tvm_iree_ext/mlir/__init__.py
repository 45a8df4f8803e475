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

_HOME = {
    "Check": "importing.imported",
    "EntryPoint": "importing.imported",
    "Imported": "importing.imported",
    "form": "reading.form",
    "import_module": "importer",
    "import_program": "from_file",
    "read": "reading.reader",
}


# The process that parses imports modules of this package, and no TVM.
__getattr__, __dir__ = on_demand(globals(), __all__, _HOME)
