"""What each kernel of a program computes, and which operations of the program's text it came of.

Calls carry their places as spans (:mod:`.mlir.importing.places`).  A function that others were
fused into has those of its parts, which are there only until their loops are one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext.base.dtypes import WORDS
from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.mlir.importing.places import Place, places_of
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.programs.base.relax_passes import prim_functions, relax_functions
from tvm_iree_ext.programs.compiled_loops import COMPILED_LOOP
from tvm_iree_ext.runtime.manifest import ProgramKernel

_FUSED = "Primitive"  # TVM's attribute of a function whose calls become one kernel


def op_key(function: tirx.PrimFunc) -> str | None:
    """The key of the op whose canonical form a function is; None for plain loops."""
    attrs = function.attrs
    return str(attrs[OP_ATTRIBUTE]) if attrs is not None and OP_ATTRIBUTE in attrs else None


class KernelPlaces:
    """The places of what each kernel computes, by its name."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Place, None]] = {}  # each once, in order

    def note(self, mod: ir.IRModule) -> None:
        """Take the places of a module's calls: those of what is fused are the whole's."""
        for var, function in relax_functions(mod).items():
            is_fused = _FUSED in (function.attrs or {})
            for name, call in _kernel_calls(function):
                into = self._known.setdefault(var.name_hint if is_fused else name, {})
                places = places_of(call)
                if is_fused and not places:
                    places = (Place(name),)
                into.update(dict.fromkeys(places))

    def join(self, name: str, others: Iterable[str]) -> None:
        """Take the places of other kernels as those of one that does what they did."""
        for other in others:
            self._known.setdefault(name, {}).update(self._known.get(other, {}))

    def of(self, name: str) -> dict[Place, None]:
        """The places of a kernel; its name where none is known."""
        return self._known.get(name) or {Place(name): None}

    def table(self, mod: ir.IRModule, ops: Mapping[str, Op]) -> tuple[ProgramKernel, ...]:
        """The kernels of a module in which all is fused, and loops are compiled."""
        functions = {var.name_hint: one for var, one in prim_functions(mod).items()}
        return tuple(
            self._row(name, function, functions, ops) for name, function in functions.items()
        )

    def _row(
        self,
        name: str,
        function: tirx.PrimFunc,
        functions: Mapping[str, tirx.PrimFunc],
        ops: Mapping[str, Op],
    ) -> ProgramKernel:
        key, places = op_key(function), self.of(name)
        if COMPILED_LOOP in (function.attrs or {}):
            for inner in _called_in(function, functions):
                places |= self.of(inner)
            return ProgramKernel(name, "compiled loop", tuple(map(str, places)))
        if key is None:
            return ProgramKernel(name, "plain loops", tuple(map(str, places)))
        op = ops[key]
        dtype = op.signature.arguments[0].dtype
        if dtype == WORDS["complex128"]:  # which alone has such words
            dtype = "complex128"
        return ProgramKernel(
            name,
            op.name,
            tuple(map(str, places)),
            dtype,
            _known_number(op.flops),
            _known_number(op.bytes),
        )


def _kernel_calls(function: relax.Function) -> Iterator[tuple[str, ir.Call]]:
    """The calls of kernels in a function, and the name of each."""
    calls: list[ir.Call] = []
    tvm_ffi.structural_walk(function.body, (ir.Call, calls.append))
    for call in calls:
        if getattr(call.op, "name", "") in ("relax.call_tir", "relax.call_tir_inplace"):
            yield call.args[0].name_hint, call


def _called_in(function: tirx.PrimFunc, functions: Mapping[str, Any]) -> list[str]:
    """The kernels that a compiled loop calls."""
    texts: dict[str, None] = {}
    tvm_ffi.structural_walk(
        function.body, (ir.StringImm, lambda text: texts.update({str(text.value): None}))
    )
    return [text for text in texts if text in functions]


def _known_number(count: Any) -> int | None:
    """What an op says; None where extents tell that only a call knows."""
    try:
        return int(count())
    except KeyError:
        return None
