"""Imported programs on TVM's stock pipeline, as slow as it is: what tests of the importer run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_iree_ext.mlir.imported import Imported
from tvm_iree_ext.mlir.importer import import_module
from tvm_iree_ext.mlir.reader import read


class Built:
    """The functions of an imported program."""

    def __init__(self, program: Imported) -> None:
        self.program = program
        executable = relax.build(program.module, tvm.target.Target("llvm"), exec_mode="bytecode")
        self.machine = relax.VirtualMachine(executable, tvm.cpu())

    def __call__(self, *arguments: Any, function: str | None = None) -> list[np.ndarray]:
        """What a function, by default the only one, gives for arrays."""
        (point,) = (p for p in self.program.functions if function is None or p.name == function)
        func = self.program.module[point.name]
        flat: list[np.ndarray] = []
        for argument in map(np.asarray, arguments):
            if argument.dtype.kind == "c":
                flat += [np.ascontiguousarray(argument.real), np.ascontiguousarray(argument.imag)]
            else:
                flat.append(np.ascontiguousarray(argument).reshape(argument.shape))
        for parameter in func.params[int(func.attrs["num_input"]) :]:
            flat.append(self.program.parameters[parameter.name])
        came = self.machine[point.name](*map(tvm.runtime.tensor, flat))
        parts = [came] if hasattr(came, "numpy") else list(came)
        arrays = [part.numpy() for part in parts]
        results = []
        for operand in point.signature.results:
            if operand.dtype.startswith("complex"):
                results.append(arrays.pop(0) + 1j * arrays.pop(0))
            else:
                results.append(arrays.pop(0))
        assert not arrays
        return results


@pytest.fixture(scope="session")
def imported() -> Callable[..., Imported]:
    """Imports text, or the file of a path."""
    pytest.importorskip("iree.compiler")
    return lambda text, **options: import_module(read(text), **options)


@pytest.fixture(scope="session")
def built(imported: Callable[..., Imported]) -> Callable[..., Built]:
    """Imports and builds."""
    return lambda text, **options: Built(imported(text, **options))


@pytest.fixture(scope="session")
def run(built: Callable[..., Built]) -> Callable[..., list[np.ndarray]]:
    """What the only public function of a text gives for arrays."""
    return lambda text, *arguments: built(text)(*arguments)
