"""A file or text of MLIR, read and imported in one step."""

import os
import re
from collections.abc import Collection, Mapping

import numpy as np

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.mlir.importer import import_module
from tvm_iree_ext.mlir.importing.boundary import Boundary
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.mlir.reading.reader import LIMIT_BYTES, LIMIT_S, name_of, read

_IN_TEXT = re.compile(r"^(\d+:\d+): ", re.MULTILINE)


def import_program(
    source: str | bytes | os.PathLike[str],
    *,
    only: Collection[str] | None = None,
    boundaries: Mapping[str, Boundary] | None = None,
    parameters: Mapping[str, np.ndarray] | None = None,
    scans_in_order: bool = True,
    limit_s: float = LIMIT_S,
    limit_bytes: int = LIMIT_BYTES,
) -> Imported:
    """Read MLIR, as :func:`~tvm_iree_ext.mlir.reading.reader.read` does, and import it.

    StableHLO and the torch dialect: :func:`tvm_iree_ext.frontends.import_lowered`.

    Args:
        source: a path, or a ``str`` that ends in ``.mlir`` or ``.mlirbc``; or the text itself.
        only: the functions that are wanted; by default all that are public.
        boundaries: what callers of functions give and get, by name; by default as the IR says.
        parameters: arrays of the globals that are ``#flow.parameter.named``, by name: constants of
            the program, which stay where they are until it is written.
        scans_in_order: as :func:`~tvm_iree_ext.mlir.importer.import_module` says.
        limit_s: how long parsing may take.
        limit_bytes: how long the text may be.

    Raises:
        MlirError: for what cannot be read, and one that lists all that is not supported.
    """
    module = read(source, limit_s=limit_s, limit_bytes=limit_bytes)
    try:
        return import_module(
            module,
            only=only,
            boundaries=boundaries,
            parameters=parameters,
            scans_in_order=scans_in_order,
        )
    except MlirError as error:
        name = name_of(source)
        located = _IN_TEXT.sub(
            lambda found: f"{name}: " if found[1] == "0:0" else f"{name}:{found[0]}", str(error)
        )
        raise MlirError(located) from None
