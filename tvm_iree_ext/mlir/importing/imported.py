"""What the importer gives and programs are built from: Relax functions, ops, constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from tvm import ir

from tvm_iree_ext.base.signature import Signature
from tvm_iree_ext.mlir.importing.places import Place
from tvm_iree_ext.ops.base.op import Op

OP_ATTRIBUTE = "tvm_iree_ext.op"
"""On a PrimFunc: the key in :attr:`Imported.ops` of the op that it is the canonical form of."""


@dataclass(frozen=True)
class Check:
    """What a ``check.*`` op of a function expects of two of the function's results, or of one.

    ``got`` and ``want`` count the results in the signature: what is compared is returned, after
    the results that the function has itself.  The ``_const`` forms return their constant, too.
    """

    kind: Literal["eq", "almost_eq", "true", "false", "all_true"]
    got: int
    want: int | None = None
    absolute: float = 0.0  # the tolerance of almost_eq
    relative: float = 0.0
    place: str = ""  # in the file: "12:5"


PLAIN_LOOPS = "plain loops"
LAYOUTS_UNUSED = "layouts unused"


@dataclass(frozen=True)
class Fallback:
    """An operation that became less than it might have, and why.

    ``what`` it became is :data:`PLAIN_LOOPS`, although an op of the registry is like it, or a
    kernel of other layouts than the program says: :data:`LAYOUTS_UNUSED`.
    """

    place: Place
    why: str
    what: str = PLAIN_LOOPS

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


@dataclass(frozen=True)
class EntryPoint:
    """A function that a caller may call.

    ``signature`` is as the caller sees it.  The Relax function of the same ``name`` takes a tensor
    for each argument, in order: one of rank 0 for a scalar, two (real, imaginary) for one of
    ``complex64`` or ``complex128``.  Behind them, from ``num_input`` on, stand the constants that
    it uses, each named as in :attr:`Imported.parameters`.  It returns a tensor for one result and
    a flat tuple for several or none; a complex result is two of them.

    Extents that are known only when it is called have one name in the signature and, as TIR
    variables, in Relax; those of a result may be expressions over them.

    ``states`` are those of the program that it reads or writes, by names of
    :attr:`Imported.states`: the Relax function takes them behind the arguments, as
    inputs, and returns behind the results what those of ``stores`` become.
    """

    name: str
    signature: Signature
    checks: tuple[Check, ...] = ()
    states: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()


@dataclass(frozen=True)
class Imported:
    """A program, before anything is scheduled.

    ``module`` holds a Relax function for each entry point, with the attributes ``global_symbol``
    (its name) and ``num_input`` (how many of its parameters the caller gives), others that these
    call, and PrimFuncs that they call by ``call_tir``.  A PrimFunc with the attribute
    :data:`OP_ATTRIBUTE` stands for an op of the registry and is replaced by its scheduled form;
    its parameters are the op's operands in the signature's order.  All others are plain loops over
    blocks, to be fused and scheduled, in destination-passing style.  ``helpers`` are the Relax
    functions that entry points name: the bodies of loops and branches, all of whose parameters
    their caller gives.  ``fallbacks`` are operations that became less than they might have.
    ``states`` are tensors that the program keeps between calls, and what they begin as.
    ``excess_precision`` lets a kernel compute in float32 with values of 16-bit floats that do not
    leave it, as PyTorch's compiler does; the dialects round after each operation.
    """

    name: str
    module: ir.IRModule
    functions: tuple[EntryPoint, ...]
    ops: Mapping[str, Op] = field(default_factory=dict)
    parameters: Mapping[str, np.ndarray] = field(default_factory=dict)
    helpers: tuple[str, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    states: Mapping[str, np.ndarray] = field(default_factory=dict)
    excess_precision: bool = False
