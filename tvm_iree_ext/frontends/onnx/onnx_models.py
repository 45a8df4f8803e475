"""From a model of ONNX to a built program: ``from_onnx``.

A model is taken by one front end as a whole: IREE's where it takes all nodes, else TVM's.  IREE's
comes first, since more node tests of ONNX are right through it, and fewer wrong.  Where a front end
does not take an operator, or is known to compute it wrongly (``onnx_faults``), the operator is
replaced by others (``onnx_rewrites``, or ONNX's own definition), and the front end is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.errors import OnnxError
from tvm_iree_ext.base.garbage import collector_at_rest
from tvm_iree_ext.frontends.onnx.onnx_doors import FrontEndRefusal, through_iree, through_tvm
from tvm_iree_ext.frontends.onnx.onnx_folding import folded
from tvm_iree_ext.frontends.onnx.onnx_model import OnnxModel, Shapes
from tvm_iree_ext.frontends.onnx.onnx_reading import read_model
from tvm_iree_ext.frontends.onnx.onnx_rewrites import REWRITES
from tvm_iree_ext.frontends.onnx.onnx_rewriting import newer, rewritten
from tvm_iree_ext.frontends.onnx.onnx_words import in_words
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime.program import Program
from tvm_iree_ext.targets.names import TargetLike

_DOORS: Mapping[str, Callable[[OnnxModel], Imported]] = {"IREE": through_iree, "TVM": through_tvm}


@collector_at_rest()
def from_onnx(
    model: Any,
    *,
    target: TargetLike = "llvm",
    folder: Path | str | None = None,
    shapes: Shapes | None = None,
    constants: Mapping[str, Any] | None = None,
) -> Program:
    """Build a program of a model of ONNX; its initialisers become the program's constants.

    >>> program = from_onnx("model.onnx")                           # doctest: +SKIP
    >>> y = program(x)                                              # doctest: +SKIP

    Args:
        model: a path, whose external data lies beside it; the bytes of a file; or an
            ``onnx.ModelProto``.
        target: see :mod:`tvm_iree_ext.targets.names`; by default this machine's CPU.
        folder: where to write the artifact; by default the cache keeps it.
        shapes: extents of inputs, by name, instead of the model's: numbers, or names and None
            for what each call says.  Those of a sequence are its tensors', each an argument of the
            program; an optional input counts as given, but for one whose shape is None.
        constants: arrays of inputs that become constants of the program, by name: such as axes and
            extents, which a front end may have to know.

    Raises:
        OnnxError: where ``onnx`` is not installed; for what is no valid model; and for a model
            that no front end takes, with the nodes and reasons of each.
        ExtError: as :func:`tvm_iree_ext.programs.program_build.build_program`.
    """
    imported = import_onnx(model, shapes=shapes, constants=constants)
    return build_program(imported, target, folder=folder)


@collector_at_rest()
def import_onnx(
    model: Any, *, shapes: Shapes | None = None, constants: Mapping[str, Any] | None = None
) -> Imported:
    """The same, imported and not built."""
    return taken_by(read_model(model, shapes, constants))[1]


def taken_by(model: OnnxModel) -> tuple[str, Imported, OnnxModel]:
    """The first front end that takes a model, what it gives, and the model that it took.

    Raises:
        OnnxError: where none does, with the nodes and reasons of each.
    """
    reasons = []
    for name, door in _DOORS.items():
        try:
            return name, *_through(door, model)
        except FrontEndRefusal as refusal:
            reasons.append(f"{name}'s front end: {refusal}")
    hint = (
        "; instead: axes and extents as constants=, or other operators"
        if model.inputs
        else "; instead: other operators"
    )
    raise OnnxError("no front end takes the model" + hint + "\n" + "\n".join(reasons))


_MOST_TURNS = 64
"""How often operators are replaced: each turn is of at least one more kind of them."""


def _through(door: Callable[[OnnxModel], Imported], model: OnnxModel) -> tuple[Imported, OnnxModel]:
    """A model through a front end, with the operators that it refuses by their definitions."""
    for _ in range(_MOST_TURNS):
        try:
            return door(model), model
        except FrontEndRefusal as refusal:
            taken = _replaced(model, refusal.operators)
            if taken is None:
                raise
            model = taken
    return door(model), model


def _replaced(model: OnnxModel, operators: frozenset[str]) -> OnnxModel | None:
    """The model with some of these operators by others; None where none is replaced."""
    if (written := rewritten(model, operators, REWRITES)) is not None:
        return written
    names = operators & model.functions()
    expanded = model.expanded(names) if names else None
    if expanded is None or names & expanded.functions():  # ONNX has none for these types
        return in_words(model) or folded(model) or newer(model)
    return expanded
