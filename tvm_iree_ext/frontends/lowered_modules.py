"""Modules of a framework's dialect, as text or bytecode, to imported programs."""

from __future__ import annotations

import os
from typing import Literal

from tvm_iree_ext.frontends.base.written_modules import import_written, writes
from tvm_iree_ext.frontends.stablehlo.mhlo_text import as_stablehlo
from tvm_iree_ext.frontends.stablehlo.stablehlo_text import taken_text
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.mlir.reading import form, reader


def import_lowered(
    source: str | bytes | os.PathLike[str], dialect: Literal["stablehlo", "torch"]
) -> Imported:
    """Import a module of a framework's dialect; mhlo is taken for today's StableHLO.

    Args:
        source: a path, or a ``str`` that ends in ``.mlir`` or ``.mlirbc``: a file of MLIR's text
            or bytecode; any other ``str`` or ``bytes``: the text or bytecode itself.
        dialect: ``stablehlo`` or ``torch``.

    Raises:
        MlirError: for what IREE does not bring to the dialects that are imported, and as
            :func:`tvm_iree_ext.mlir.from_file.import_program`.
    """
    module = reader.text_of(source)
    if module.startswith(form.BYTECODE):
        return import_written(writes(module), dialect)
    text = module.decode("utf-8", "surrogateescape")
    if dialect == "stablehlo":
        text = as_stablehlo(text)
    module = taken_text(text).encode("utf-8", "surrogateescape")
    return import_written(writes(module), dialect, name=reader.name_of(source))
