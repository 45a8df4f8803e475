"""The state of an import: the Relax module that grows, and the function that does."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, relax, sym, tirx
from tvm.ir import IRModule, Range

from tvm_iree_ext.mlir.base.elements import Element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    AnyTensor,
    Constant,
    Scalar,
    Value,
    extent,
    extent_text,
    plain,
)
from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE, PLAIN_LOOPS, Fallback
from tvm_iree_ext.mlir.importing.places import place_of
from tvm_iree_ext.mlir.importing.relax_types import MOST_EXTENT, OPAQUE
from tvm_iree_ext.mlir.importing.settled_extents import with_known_extents
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.tir.byte_parameters import with_words_for_numbers
from tvm_iree_ext.tir.halved_parameters import with_halved_parameters
from tvm_iree_ext.tir.tensor_scalars import with_tensor_scalars


@dataclass(frozen=True)
class State:
    """A tensor that a program keeps between calls: its name, its type, and what it begins as."""

    name: str
    element: Element
    initial: np.ndarray


@dataclass
class ProgramImport:
    """What the functions of a module share."""

    # The body of a function, and a block: their values in the scope that comes first.
    run: Callable[[Any, form.ParsedOperation], list[Value]]
    run_block: Callable[[Any, form.ParsedBlock], list[Value]]
    given: Mapping[str, np.ndarray] = field(default_factory=dict)  # values of parameters
    scans_in_order: bool = True
    builder: relax.BlockBuilder = field(default_factory=relax.BlockBuilder)
    ops: dict[str, Op] = field(default_factory=dict)
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    globals: dict[str, form.ParsedOperation] = field(default_factory=dict)
    functions: dict[str, form.ParsedOperation] = field(default_factory=dict)
    constants: dict[str, Value] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)  # by the names of globals
    initializers: list[form.ParsedOperation] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)
    settled: dict[str, dict[tirx.Var, Any]] = field(default_factory=dict)
    helpers: set[str] = field(default_factory=set)  # functions that entry points name
    symbols: dict[str, str] = field(default_factory=dict)  # entry points, by what they are called
    dropped: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    fallbacks: dict[Fallback, None] = field(default_factory=dict)  # each once, in order
    operation: form.ParsedOperation | None = None  # that is imported now
    most_steps: int = 0
    settles_numbers: bool = False  # whether extents of arguments turned out to be numbers
    _keys: dict[Any, str] = field(default_factory=dict)
    _ops: dict[str, tuple[str, ir.GlobalVar]] = field(default_factory=dict)

    def parameter(self, array: np.ndarray, hint: str) -> str:
        """The name under which an array is a parameter; equal ones have one name."""
        key = (
            array.dtype.str,
            array.shape,
            array.tobytes() if array.nbytes < 1 << 16 else id(array),
        )
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = f"{hint}{len(self.parameters)}"
            self.parameters[found] = array
        return found

    def report(self, op: form.ParsedOperation, what: str) -> None:
        """Note what is not supported."""
        self.problems.append(f"{op.location}: {op.name}: {what}")

    def fell_back(self, why: str, what: str = PLAIN_LOOPS) -> None:
        """Note that the operation becomes plain loops although an op of the registry is like it.

        Or else that it becomes ``what``.
        """
        if self.operation is not None:
            self.fallbacks[Fallback(place_of(self.operation), why, what)] = None

    def symbol(self, name: str) -> str:
        """What an entry point is called until the module is finished: Relax takes identifiers."""
        found = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        while found in self.symbols:
            found += "_"
        self.symbols[found] = name
        return found

    def kernel_name(self, name: str) -> str:
        """A name for a kernel, such that no function of the module has it, also with a number."""
        while any(function.startswith(name) for function in self.functions):
            name += "_"
        return name

    def finished(self, names: Sequence[str]) -> IRModule:
        """The module, whose functions say how many of their parameters a caller gives."""
        module = self.builder.finalize()
        functions = {}
        for gvar, func in module.functions.items():
            name = self.symbols.get(gvar.name_hint, "")
            if name in names:
                func = _bound(func, self.settled[name])
                func = func.with_attr("num_input", self.inputs[name])
                func = func.with_attr("global_symbol", name)
                gvar = gvar if gvar.name_hint == name else ir.GlobalVar(name)
            elif isinstance(func, relax.Function) and gvar.name_hint not in self.helpers:
                continue
            functions[gvar] = func
        made = IRModule(functions)
        return with_known_extents(made) if self.settles_numbers else made

    def op_function(self, op: Op, in_memory: Mapping[str, str]) -> ir.GlobalVar:
        """The canonical PrimFunc of an op of the registry, marked; equal ops have one.

        ``in_memory`` are its scalars that are tensors of rank 0, with their element types.
        """
        identity = repr((op.describe(), in_memory))
        if identity not in self._ops:
            key = f"{op.entry}_{len(self.ops)}"
            func = with_halved_parameters(with_words_for_numbers(op.prim_func()))
            func = with_tensor_scalars(func, in_memory)
            func = func.with_attr(OP_ATTRIBUTE, key).with_attr("op_pattern", OPAQUE)
            func = func.without_attr("global_symbol")
            self._ops[identity] = (key, self.builder.add_func(func, self.kernel_name(key)))
            self.ops[key] = op
        return self._ops[identity][1]


def _bound(func: relax.Function, settled: Mapping[tirx.Var, Any]) -> relax.Function:
    """A function whose settled extents are what they must equal."""
    values = {variable: extent(one) for variable, one in settled.items()}
    return func.bind_symbolic_vars(values) if values else func


@dataclass
class FunctionImport:
    """The Relax function under construction."""

    program: ProgramImport
    name: str
    builder: relax.BlockBuilder
    helpers: set[str] = field(default_factory=set)  # functions of regions, and of those in them
    constants: dict[int, tuple[Constant, list[relax.Var]]] = field(default_factory=dict)
    parameters: dict[str, relax.Var] = field(default_factory=dict)
    states: dict[str, relax.Var] | None = field(default_factory=dict)  # None in regions
    held: dict[str, AnyTensor] = field(default_factory=dict)  # by the globals that were stored
    analyzer: sym.Analyzer = field(default_factory=sym.Analyzer)
    checks: list[Any] = field(default_factory=list)
    asserts: list[tuple[Scalar, str]] = field(default_factory=list)  # conditions and messages
    padded: dict[int, Any] = field(default_factory=dict)  # by id: a tensor, its source, its zeros
    spread: dict[int, Any] = field(
        default_factory=dict
    )  # by id: a tensor, what lies in zeros, where
    views: dict[int, Any] = field(default_factory=dict)  # by id: a tensor, what it is a reshape of
    elements: dict[int, tuple[Value, tuple[Scalar, ...]]] = field(default_factory=dict)  # by id
    in_place: set[int] = field(default_factory=set)  # operations, by id, that may write so
    laid_out: dict[int, Any] = field(default_factory=dict)  # by id: see dialects/lane_layouts
    simt: Any = None  # see dialects/simt_values
    counted: dict[int, tuple[int, Value]] = field(default_factory=dict)  # by id: 0, 1, ... along
    from_data: dict[int, tuple[Scalar, tirx.Var]] = field(default_factory=dict)
    extent_names: dict[str, str] = field(default_factory=dict)
    extents: list[tirx.Var] = field(default_factory=list)  # of the arguments, in order
    settled: dict[tirx.Var, Any] = field(default_factory=dict)  # those that must equal others
    declared: dict[str, str] = field(default_factory=dict)  # what must stay open, by extents' names
    steps: int = 0
    found: int = 0

    def inner(self) -> "FunctionImport":
        """A function for a region of this one."""
        builder = relax.BlockBuilder()
        return FunctionImport(
            self.program, self.name, builder, self.helpers, states=None, steps=self.steps
        )

    def helper_name(self, kind: str) -> str:
        """A name for a function of a region, which no function of the module has."""
        number = len(self.helpers)
        while (name := f"{self.name}__{kind}{number}") in (*self.program.functions, *self.helpers):
            number += 1
        self.helpers.add(name)
        return name

    def finish_helper(self, name: str) -> None:
        """Add the function that this one's builder has made to the module."""
        made = _bound(self.builder.get()[name], self.settled)
        made = made.with_attr("num_input", len(made.params)).with_attr("global_symbol", name)
        self.program.builder.add_func(made, name)

    def extent_of_run(self) -> tirx.Var:
        """An extent that only a run tells."""
        self.found += 1
        return self.bounded(tirx.Var(f"found{self.found}", "int64"))

    def extent_of_argument(self, name: str, declared: str = "") -> tirx.Var:
        """An extent that a call tells; ``declared`` names one that must not be settled."""
        if declared:
            self.declared[name] = declared
        self.extents.append(self.bounded(tirx.Var(name, "int64")))
        return self.extents[-1]

    def bounded(self, variable: tirx.Var) -> tirx.Var:
        """The extent of some tensor, which is not below 0."""
        self.analyzer.bind(variable, Range(0, MOST_EXTENT))
        return variable

    def in_terms(self, one: Any) -> Any:
        """An extent by those of the arguments' that are not settled by others."""
        if isinstance(one, int) or not self.settled:
            return one
        found = tvm_ffi.structural_map(one, (ir.Var, lambda var: self.settled.get(var, var)))
        return plain(self.analyzer.simplify(found))

    def settle(self, a: Any, b: Any) -> bool:
        """Have two extents be equal in every call; False where no argument's own is one of them.

        Of two arguments' extents that of the later is settled.  A call is checked before it runs.

        Raises:
            Unsupported: where a number would settle an extent that is declared open.
        """
        a, b = self.in_terms(a), self.in_terms(b)
        if not isinstance(a, int) or not isinstance(b, int):
            if self.analyzer.can_prove_equal(extent(a), extent(b)):
                return True
            for own in reversed(self.extents):
                for one, other in ((a, b), (b, a)):
                    if own.same_as(one) and self.is_said(other, own):
                        if isinstance(other, int) and own.name in self.declared:
                            raise Unsupported(
                                f"{self.declared[own.name]} is declared open, and has to be"
                                f" {other} here"
                            )
                        self.settled[own] = other
                        self.program.settles_numbers |= isinstance(other, int)
                        self.settled = {v: self.in_terms(e) for v, e in self.settled.items()}
                        return True
        return False

    def is_said(self, one: Any, own: tirx.Var | None = None) -> bool:
        """Whether the arguments' extents say an extent, ``own`` left out."""
        used: list[tirx.Var] = []
        if not isinstance(one, int):
            tvm_ffi.structural_walk(one, (ir.Var, used.append))
        known = [known for known in self.extents if own is None or not known.same_as(own)]
        if not all(any(var.same_as(one) for one in known) for var in used):
            return False
        try:
            extent_text(one)
        except Unsupported:
            return False
        return True
