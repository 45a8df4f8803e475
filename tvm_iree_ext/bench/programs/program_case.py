"""A program that is timed: where it comes from, and how near its results are to be."""

import importlib
from dataclasses import dataclass
from typing import Literal

from tvm_iree_ext.bench.programs.models.program_model import Model

Framework = Literal["torch", "jax"]


@dataclass(frozen=True)
class ProgramCase:
    """One program of the list.

    Attributes:
        name: that of what makes it, too.
        framework: whose function or module it is.
        module: the Python module that has what makes it.
        relative: how far a number may be off, of itself.
        absolute: and of the largest of its array.
        reason: why the tolerance is what it is.
        reference: ``float64``, or the framework in the program's own types where that would
            compute something else.
        left_out: why ours is not built unless the program is asked for by name.
    """

    name: str
    framework: Framework
    module: str
    relative: float = 1e-4
    absolute: float = 1e-4
    reason: str = "float32: sums in any order"
    reference: Literal["float64", "framework"] = "float64"
    left_out: str = ""

    def make(self) -> Model:
        """Its function and arguments, the same in every run; imports the framework.

        Makers stand in the module by name, or in its table ``MODELS``.
        """
        module = importlib.import_module(self.module)
        model = getattr(module, "MODELS", vars(module))[self.name]()
        assert isinstance(model, Model)
        return model
