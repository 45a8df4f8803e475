"""Imported programs, built as a user builds them: what tests of the importer run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_iree_ext.mlir.importer import import_module
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.mlir.reading.reader import read
from tvm_iree_ext.programs.program_build import build_program


class Built:
    """The functions of an imported program."""

    def __init__(self, program: Imported, folder: Path) -> None:
        self.program = program
        self.built = build_program(program, folder=folder)

    def __call__(self, *arguments: Any, function: str | None = None) -> list[np.ndarray]:
        """What a function, by default the only one, gives for arrays."""
        called = self.built.main if function is None else self.built[function]
        operands = called.signature.arguments
        given = [
            np.asarray(argument)[()] if operand.role == "scalar" else np.asarray(argument)
            for argument, operand in zip(arguments, operands, strict=True)
        ]
        came = called(*given)
        return list(came) if isinstance(came, tuple) else [came]


@pytest.fixture(scope="session")
def imported() -> Callable[..., Imported]:
    """Imports text, or the file of a path."""
    pytest.importorskip("iree.compiler")
    return lambda text, **options: import_module(read(text), **options)


@pytest.fixture(scope="session")
def built(
    imported: Callable[..., Imported], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Built]:
    """Imports and builds."""
    return lambda text, **options: Built(
        imported(text, **options), tmp_path_factory.mktemp("built") / "program"
    )


@pytest.fixture(scope="session")
def run(built: Callable[..., Built]) -> Callable[..., list[np.ndarray]]:
    """What the only public function of a text gives for arrays."""
    return lambda text, *arguments: built(text)(*arguments)
