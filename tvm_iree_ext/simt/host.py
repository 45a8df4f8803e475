"""Functions that launch kernels: what they allocate, and in which order they launch what."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.errors import SimulationError
from tvm_iree_ext.simt import calls
from tvm_iree_ext.simt.emission import Code, Emitter
from tvm_iree_ext.simt.expressions import Expressions, lanes_of, operator_name
from tvm_iree_ext.simt.functions import NAMES
from tvm_iree_ext.simt.launch import Simulation, simulate
from tvm_iree_ext.simt.lookahead import base_of, look_ahead
from tvm_iree_ext.simt.mbarrier import TensorMap
from tvm_iree_ext.simt.values import element_type


def simulate_host(
    host: tirx.PrimFunc,
    kernels: Mapping[str, tirx.PrimFunc],
    arguments: Mapping[str, Any],
    *,
    written: Iterable[str] | None = None,
) -> list[Simulation]:
    """Run a function that launches kernels, all their workgroups; a simulation for each launch.

    Args:
        host: split from its kernels, its parameters still buffers.
        kernels: by name.
        arguments: an array for each buffer, changed in place, and numbers, by name.
        written: which arrays have contents at first; by default those that no kernel stores into.

    Raises:
        SimulationError: for arguments that do not fit, or what the simulator does not know.
    """
    return _Host(host, kernels, arguments, written).run()


class _Host:
    def __init__(
        self,
        host: tirx.PrimFunc,
        kernels: Mapping[str, tirx.PrimFunc],
        arguments: Mapping[str, Any],
        initial: Iterable[str] | None,
    ) -> None:
        self.host, self.kernels, self.arguments = host, kernels, arguments
        self.initial = None if initial is None else set(initial)
        self.numbers: dict[Any, int | float] = {}
        self.arrays: dict[Any, np.ndarray] = {}
        self.roots: dict[Any, Any] = {}
        self.written: dict[Any, np.ndarray] = {}  # bytes with contents
        self.maps: dict[Any, TensorMap] = {}
        self.done: list[Simulation] = []

    def run(self) -> list[Simulation]:
        names = [str(parameter.name) for parameter in self.host.params]
        if set(names) != set(self.arguments):
            raise SimulationError(
                f"arguments {', '.join(self.arguments)}; the function takes {', '.join(names)}"
            )
        stored = self._stored()
        for parameter, name in zip(self.host.params, names, strict=True):
            value = self.arguments[name]
            if not isinstance(value, np.ndarray):
                whole = "int" in str(parameter.ty.dtype)
                self.numbers[parameter] = int(value) if whole else float(value)
                continue
            self._match(parameter, name, value)
            self.arrays[parameter] = value
            full = name in self.initial if self.initial is not None else parameter not in stored
            self.written[parameter] = np.full(value.nbytes, full)
        self._visit(self.host.body)
        return self.done

    def _stored(self) -> set[Any]:
        """The buffers that a kernel stores into."""
        roots: dict[Any, Any] = {}
        found: set[Any] = set()

        def declared(node: Any) -> None:
            base = base_of(node.data)
            roots[node.buffer] = roots.get(base, base)

        def launched(call: Any) -> None:
            if operator_name(call) != "call_ffi_kernel":
                return
            kernel = self.kernels[str(call.args[0].value)]
            stored = look_ahead(kernel.body).stored
            for argument, parameter in zip(call.args[1:], kernel.params, strict=False):
                if parameter in stored:
                    base = base_of(argument)
                    found.add(roots.get(base, base))

        tvm_ffi.structural_walk(self.host.body, (tirx.DeclBuffer, declared))
        tvm_ffi.structural_walk(self.host.body, (ir.Call, launched))
        return found

    def _match(self, buffer: Any, name: str, array: np.ndarray) -> None:
        """Find out the extents that the array's shape gives."""
        if len(buffer.shape) != array.ndim:
            raise SimulationError(
                f"{name} has {array.ndim} dimensions; expected {len(buffer.shape)}"
            )
        for extent, given in zip(buffer.shape, array.shape, strict=True):
            if isinstance(extent, ir.Var) and extent not in self.numbers:
                self.numbers[extent] = given
            elif (expected := self._number(extent)) != given:
                raise SimulationError(f"{name} has shape {array.shape}; expected {expected}")

    def _number(self, node: Any) -> Any:
        if isinstance(node, ir.Var):
            return self.numbers[node]
        emitter = Emitter()
        values = Expressions(emitter, calls.call)
        values.variables = {
            variable: Code(f"({number})", True, 0, number)
            for variable, number in self.numbers.items()
            if isinstance(number, int)
        }
        emitter.line(f"return {values(node).text}")
        names = NAMES | emitter.objects
        exec(emitter.source("def number():"), names)
        return int(names["number"]())

    def _visit(self, node: Any) -> None:
        kind = type(node).__name__
        if kind == "SeqStmt":
            for part in node.seq:
                self._visit(part)
        elif kind == "Bind" and operator_name(node.value) == "tvm_stack_alloca":
            pass  # a tensor map, which is made before it is used
        elif kind == "Evaluate" and operator_name(node.value) == "tensormap_encode_tiled":
            self._encode(node.value)
        elif kind == "Bind":
            self.numbers[node.var] = self._number(node.value)
        elif kind == "AttrStmt":
            self._visit(node.body)
        elif kind == "AllocBuffer":
            self._allocate(node.buffer)
        elif kind == "DeclBuffer":
            base = base_of(node.data)
            self.roots[node.buffer] = self.roots.get(base, base)
        elif kind == "For":
            for count in range(self._number(node.extent)):
                self.numbers[node.loop_var] = self._number(node.min) + count
                self._visit(node.body)
        elif kind == "IfThenElse":
            chosen = node.then_case if self._number(node.condition) else node.else_case
            if chosen is not None:
                self._visit(chosen)
        elif kind == "Evaluate" and operator_name(node.value) == "call_ffi_kernel":
            self._launch(node.value)
        elif kind not in ("Evaluate", "AssertStmt"):
            raise SimulationError(f"the simulator does not know {kind} on the host")

    def _allocate(self, buffer: Any) -> None:
        dtype = str(buffer.dtype)
        count = lanes_of(dtype)
        for extent in buffer.shape:
            count *= self._number(extent)
        self.arrays[buffer] = array = np.zeros(count, element_type(dtype))
        self.written[buffer] = np.zeros(array.nbytes, bool)

    def _encode(self, call: Any) -> None:
        """A tensor map; its dims, strides and box have the fastest first, which here come last."""
        made, data, *numbers = call.args
        rank = int(call.attrs.rank)
        values = [self._number(number) for number in numbers]
        extents, strides = values[:rank], values[rank : 2 * rank - 1]
        box, steps = values[2 * rank - 1 : 3 * rank - 1], values[3 * rank - 1 :]
        base = base_of(data)
        root = self.roots.get(base, base)
        array, size = self.arrays[root], self.arrays[root].itemsize
        packed = [size * int(np.prod(extents[: dim + 1])) for dim in range(rank - 1)]
        if strides != packed or set(steps) != {1}:
            raise SimulationError(f"the simulator takes tensor maps of whole arrays, not {call}")
        self.maps[made] = TensorMap(
            array.reshape(extents[::-1]),
            tuple(box[::-1]),
            16 << int(call.attrs.swizzle),
            self.written[root],
        )

    def _launch(self, call: Any) -> None:
        name = str(call.args[0].value)
        kernel = self.kernels[name]
        given: dict[str, Any] = {}
        written: dict[str, np.ndarray] = {}
        roots: dict[str, Any] = {}
        for argument, parameter in zip(call.args[1:], kernel.params, strict=False):
            short = str(parameter.name).removesuffix("_ptr")
            if argument in self.maps:
                given[short] = self.maps[argument]
                continue
            if not isinstance(parameter.ty, ir.PointerType):
                given[short] = self._number(argument)
                continue
            base = base_of(argument)
            root = roots[short] = self.roots.get(base, base)
            given[short], written[short] = self.arrays[root], self.written[root]
        done = simulate(kernel, given, written=written)
        self.done.append(done)
        for short, root in roots.items():
            self.written[root] = done.written[short]
