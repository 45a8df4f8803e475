"""From a module that is written in a framework's dialect to an imported program."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends.base.iree_compiler import lower
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.mlir.importing.boundary import Boundary
from tvm_iree_ext.mlir.importing.imported import Imported


def writes(text: str | bytes) -> Callable[[Path], Path]:
    """A function that writes a text into a folder."""

    def write(place: Path) -> Path:
        path = place / "module.mlir"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def import_written(
    write: Callable[[Path], Path],
    dialect: str,
    boundaries: Mapping[str, Boundary] | None = None,
    parameters: Mapping[str, np.ndarray] | None = None,
    name: str | None = None,
) -> Imported:
    """Import what is written in a framework's dialect.

    Of its functions those that have boundaries, where any has.

    ``name`` is what messages call the text, where it has no places of a program's source.  Running
    sums may be bracketed and values of 16 bits be kept in float32, as the frameworks do.
    """
    with scratch() as place:
        lowered = lower(write(place), dialect, name)
    imported = import_program(
        lowered,
        only=boundaries,
        boundaries=boundaries,
        parameters=parameters,
        scans_in_order=False,
    )
    return replace(imported, excess_precision=True)


def absent(what: str, extra: str, error: ImportError) -> MlirError:
    """The error for a framework that is not installed."""
    return MlirError(f"{what} is not installed: {error}; pip install 'tvm-iree-ext[{extra}]'")
