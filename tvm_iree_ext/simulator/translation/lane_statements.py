"""A device function as Python source that runs all lanes of a workgroup at once.

Each statement becomes a few lines over NumPy arrays; loops whose bounds are the same for all lanes
are Python loops; where lanes diverge, both sides run under masks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import ir, tirx

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.base.traffic import Hardware
from tvm_iree_ext.simulator.base.workgroup_state import NOBODY
from tvm_iree_ext.simulator.machine.value_functions import NAMES
from tvm_iree_ext.simulator.translation import (
    lane_calls,
    lookahead,
    matrix_calls,
    mbarrier_calls,
    memory_calls,
    tensor_memory_calls,
    value_calls,
    warpgroup_calls,
)
from tvm_iree_ext.simulator.translation.deep_expressions import room_for_depth
from tvm_iree_ext.simulator.translation.lane_expressions import (
    Binding,
    Expressions,
    dtype_of,
    lanes_of,
    operator_name,
)
from tvm_iree_ext.simulator.translation.python_source import Code, PythonEmitter

# Their handlers:
_REGISTERED = (
    lane_calls, matrix_calls, mbarrier_calls, memory_calls, tensor_memory_calls, warpgroup_calls,
)  # fmt: skip
TENSOR_MAP = "tensormap"
"""The type of a parameter that is a tensor map."""
_CLUSTER, _PAIR = "clusterCtaIdx.x", 2
_AXES = {"x": 0, "y": 1, "z": 2}


@dataclass
class KernelParameter:
    """A parameter of a kernel: a buffer of global memory, or a number.

    Attributes:
        size: elements of the buffer, where that is constant.
    """

    name: str
    dtype: str
    pointer: bool
    size: int | None = None
    unit: int = 0  # bytes of the smallest element that it is read as
    loaded: bool = False
    stored: bool = False

    @property
    def short_name(self) -> str:
        """Name of the buffer that the parameter points to."""
        return self.name.removesuffix("_ptr")


@dataclass
class Translation:
    """A kernel that the simulator can run.

    Attributes:
        run: ``run(rt, parameters)``, one workgroup.
        grid, block: extents of the launch in x, y, z, as functions of the scalar parameters.
        cluster: workgroups that run together: 1, or a pair along x.
        ordered: whether barriers in shared memory order what its subgroups do.
    """

    name: str
    source: str
    run: Callable[[Any, list[Any]], None]
    parameters: list[KernelParameter]
    grid: Callable[[list[Any]], tuple[int, int, int]]
    block: Callable[[list[Any]], tuple[int, int, int]]
    statements: list[Any] = field(default_factory=list)
    cluster: int = 1
    ordered: bool = False

    def statement_text(self, number: int) -> str:
        """A statement as TVMScript, and its number."""
        if not 0 <= number < len(self.statements):
            return "the start of the kernel"
        lines = str(self.statements[number]).strip().splitlines()
        # Declarations of what the statement uses stand before it.
        first = next(
            (line for line in lines if not _is_declaration(line)), lines[-1] if lines else ""
        )
        first = first.strip()
        return f"[{number}] {first[:200]}{'...' if len(first) > 200 else ''}"


def _is_declaration(line: str) -> bool:
    _, _, right = line.partition(" = ")
    declares = ("T.int32()", "T.int64()", "T.bool()", "T.handle(", "T.decl_buffer(", "T.Buffer(",
                "T.alloc_", "T.float", "T.uint32()")  # fmt: skip
    return line.startswith("#") or (right.startswith(declares) and "[" not in line.split(" = ")[0])


def _is_tensor_map(var: Any) -> bool:
    return isinstance(var.ty, ir.PointerType) and isinstance(
        var.ty.element_type, tirx.TensorMapType
    )


def translate(function: Any, hardware: Hardware) -> Translation:
    """Translate a device function: flat buffers, thread extents as attributes.

    Raises:
        SimulationError: for what the simulator does not know, naming it.
    """
    with room_for_depth(_name_of(function)):
        return _Statements(function, hardware).translation()


def _name_of(function: Any) -> str:
    return str(function.attrs.get("global_symbol", "kernel")) if function.attrs else ""


class _Statements:
    def __init__(self, function: Any, hardware: Hardware) -> None:
        self.function = function
        self.emitter = PythonEmitter()
        self.values = Expressions(self.emitter, value_calls.call)
        self.values.subgroup_size, self.values.chip = hardware.subgroup_size, hardware.chip
        self.statements: list[Any] = []
        self.extents: dict[str, Any] = {}
        self.parameters: list[KernelParameter] = []
        self.masks = ["m_0"]  # those that a lane leaves when it returns, the outermost first
        self.loops: list[tuple[str, int]] = []  # mask of a loop, and where its own masks start
        self.uses = lookahead.look_ahead(function.body)

    def translation(self) -> Translation:
        line = self.emitter.line
        line("m_0 = None")
        self._declare_parameters()
        self._visit(self.function.body)
        name = _name_of(self.function)
        source = self.emitter.source("def kernel(rt, parameters):")
        names = NAMES | self.emitter.objects | {"NOBODY": NOBODY}
        exec(compile(source, f"<simulated {name}>", "exec"), names)
        return Translation(
            name,
            source,
            names["kernel"],
            self.parameters,
            self._extents("blockIdx"),
            self._extents("threadIdx"),
            self.statements,
            int(self.extents.get(_CLUSTER, 1)),
            self.uses.barriers,
        )

    def _extents(self, kind: str) -> Callable[[list[Any]], tuple[int, int, int]]:
        """The extents of the launch, as a function of the parameters."""
        emitter = PythonEmitter()
        values = Expressions(emitter, value_calls.call)
        for at, var in enumerate(self.function.params):
            dtype = str(self.parameters[at].dtype)
            # A float, which may be no number, is of no extent.
            if not (self.parameters[at].pointer or dtype == TENSOR_MAP or "float" in dtype):
                values.variables[var] = emitter.here(f"int(parameters[{at}])", True)._replace(
                    depth=0
                )
        nodes = [self.extents.get(f"{kind}.{axis}") for axis in _AXES]
        texts = ["1" if node is None else values(node).text for node in nodes]
        emitter.line(f"return ({', '.join(texts)})")
        names = NAMES | emitter.objects
        exec(emitter.source("def extents(parameters):"), names)
        return names["extents"]

    def _declare_parameters(self) -> None:
        for at, var in enumerate(self.function.params):
            name = self.emitter.name(str(var.name))
            self.emitter.line(f"{name} = parameters[{at}]")
            if _is_tensor_map(var):
                self.values.variables[var] = Code(name, True, 0)
                self.parameters.append(KernelParameter(str(var.name), TENSOR_MAP, False))
            elif isinstance(var.ty, ir.PointerType):
                element = str(getattr(var.ty.element_type, "dtype", "uint8"))
                self.values.pointers[var] = name
                self.values.pointer_types[var] = element
                unit = self.uses.units.get(var, element_type(element).itemsize)
                self.parameters.append(
                    KernelParameter(
                        str(var.name),
                        element,
                        True,
                        None,
                        unit,
                        var in self.uses.loaded,
                        var in self.uses.stored,
                    )
                )
            else:
                self.values.variables[var] = Code(name, True, 0)
                self.parameters.append(KernelParameter(str(var.name), dtype_of(var), False))

    # Statements.

    def _visit(self, node: Any) -> None:
        kind = type(node).__name__
        method = getattr(self, f"_{kind}", None)
        if method is None:
            raise SimulationError(f"the simulator does not know the statement {kind}")
        if kind != "SeqStmt":
            self.values.statement = len(self.statements)
            self.statements.append(node)
        method(node)

    def _SeqStmt(self, node: Any) -> None:
        for part in node.seq:
            self._visit(part)

    def _Evaluate(self, node: Any) -> None:
        value = node.value
        name = operator_name(value)
        leaves = {"break_loop": "_Break", "continue_loop": "_Continue", "thread_return": "_Return"}
        if name in leaves:
            getattr(self, leaves[name])(node)
        elif not isinstance(value, tirx.IntImm):
            self.values(value)

    def _AttrStmt(self, node: Any) -> None:
        key = str(node.attr_key)
        if key == "thread_extent":
            self._thread(node)
        if key == "async_wait_inflight_count":  # of the groups that may still be under way
            newest = self.values(node.value).text
            self.emitter.line(
                f"rt.copies.wait({newest}, {self.values.mask}, {self.values.statement})"
            )
        self._visit(node.body)
        if key == "async_commit_queue_scope":
            self.emitter.line(f"rt.copies.commit({self.values.mask})")

    def _thread(self, node: Any) -> None:
        tag = str(node.node.thread_tag)
        kind, _, axis = tag.partition(".")
        if tag == _CLUSTER and int(node.value) == _PAIR:
            self.extents[tag] = node.value
            self.values.variables[node.node.var] = Code("rt.rank", True, 0)
            return
        if kind not in ("blockIdx", "threadIdx") or axis not in _AXES:
            raise SimulationError(f"the simulator does not know threads of {tag!r}")
        self.extents.setdefault(tag, node.value)
        what = "index" if kind == "blockIdx" else "threads"
        code = Code(f"rt.{what}[{_AXES[axis]}]", kind == "blockIdx", 0)
        name = self.emitter.name(tag)
        dtype = self.values.dtype(element_type(dtype_of(node.node.var)))
        value = code.text if code.uniform else f"cast({code.text}, {dtype})"
        self.emitter.line(f"{name} = {value}", 0)
        self.values.variables[node.node.var] = code._replace(text=name)

    def _Bind(self, node: Any) -> None:
        value = node.value
        if isinstance(getattr(node.var, "ty", None), ir.PointerType):
            at = value_calls.pointer(self.values, value)
            self.values.pointers[node.var] = f"{at.view}.memory"
            self.values.pointer_types[node.var] = at.dtype
            if at.at.constant != 0:
                raise SimulationError(f"the simulator does not know pointers into a buffer: {node}")
            return
        code = self.values(value)
        if not code.pure:
            text = self.values.scalar(code, dtype_of(value))
            code = self.emitter.here(text, code.uniform, str(node.var.name))
        self.values.variables[node.var] = code

    def _AllocBuffer(self, node: Any) -> None:
        buffer = node.buffer
        scope, dtype = str(buffer.scope()), str(buffer.dtype)
        element, name = element_type(dtype), str(buffer.name)
        size: Any = lanes_of(dtype)
        for extent in buffer.shape:
            code = self.values(extent)
            size = (
                size * code.constant
                if isinstance(size, int) and code.constant is not None
                else f"({size}) * {code.text}"
            )
        if scope.startswith("shared"):
            memory = self.emitter.name(name)
            text = (
                f"rt.shared({name!r}, {size} * {element.itemsize}, {self.uses.units[buffer]},"
                f" {int(buffer.data_alignment)}, {self.uses.warpgroups})"
            )
            self.emitter.line(f"{memory} = {text}", 0)
            self.values.pointers[buffer] = memory
            self.values.buffers[buffer] = Binding(
                self.values.view(memory, str(element)), "view", dtype
            )
        elif scope == "local":
            text = self.emitter.name(name)
            known = isinstance(size, int)
            if buffer in self.uses.aliased or buffer in self.uses.by_lane or not known:
                bytes_of = size * element.itemsize if known else f"{size} * {element.itemsize}"
                self.emitter.line(f"{text} = rt.lane_bytes({name!r}, {bytes_of})")
                self.values.pointers[buffer] = text
                self._lane_view(buffer, text, dtype, size if known else 0)
            else:
                kind = self.values.dtype(element)
                self.emitter.line(f"{text} = rt.registers({name!r}, {size}, {kind})")
                self.values.buffers[buffer] = Binding(text, "registers", dtype, size)
        else:
            raise SimulationError(f"buffer {name}: the simulator does not know scope {scope!r}")

    def _lane_view(self, buffer: Any, memory: str, dtype: str, size: int) -> None:
        text = self.emitter.name(str(buffer.name))
        kind = self.values.dtype(element_type(dtype))
        self.emitter.line(f"{text} = rt.view({memory}, {kind}, {str(buffer.name)!r})")
        self.values.buffers[buffer] = Binding(text, "lanes", dtype, size)

    def _DeclBuffer(self, node: Any) -> None:
        buffer, dtype = node.buffer, str(node.buffer.dtype)
        base = lookahead.base_of(node.data) if node.data is not None else None
        elem_offset = getattr(buffer, "elem_offset", None)
        if isinstance(elem_offset, tirx.IntImm) and int(elem_offset) != 0:
            raise SimulationError(f"buffer {buffer.name}: the simulator takes no element offsets")
        if base in self.values.pointers:
            memory = self.values.pointers[base]
            self.values.pointers[buffer] = memory
            element = element_type(dtype)
            known = self.values.buffers.get(base)
            if known is not None and known.kind == "lanes":
                size = known.size * known.element.itemsize // element.itemsize
                self._lane_view(buffer, memory, dtype, size)
                return
            name = self.emitter.name(str(buffer.name))
            kind = self.values.dtype(element)
            self.emitter.line(f"{name} = rt.view({memory}, {kind}, {str(buffer.name)!r})", 0)
            self.values.buffers[buffer] = Binding(name, "view", dtype)
            self._size_parameter(base, buffer)
        elif base in self.values.buffers:
            known = self.values.buffers[base]
            self.values.buffers[buffer] = Binding(known.text, known.kind, dtype, known.size)
        else:
            raise SimulationError(f"buffer {buffer.name} is declared on {node.data}, unknown here")

    def _size_parameter(self, base: Any, buffer: Any) -> None:
        for at, var in enumerate(self.function.params):
            if var.same_as(base) and all(isinstance(e, tirx.IntImm) for e in buffer.shape):
                size = int(np.prod([int(e) for e in buffer.shape], dtype=np.int64))
                self.parameters[at].size = size * lanes_of(str(buffer.dtype))
                self.parameters[at].dtype = str(element_type(str(buffer.dtype)))

    def _BufferStore(self, node: Any) -> None:
        binding = self.values.buffers[node.buffer]
        value, dtype = self.values(node.value), dtype_of(node.value)
        index, count, scattered = self.values.place(node.indices, binding)
        if not scattered:
            self.values.store_at(binding, index, value, count, dtype)
            return
        text = self.values.scalar(value, dtype)
        many = self.emitter.here(f"rows({text}, {count * binding.vector})", False)
        for at, place in enumerate(scattered):
            part = Code(f"{many.text}[{at}]", False)
            if binding.vector > 1:
                first = at * binding.vector
                part = Code(f"{value.text}[{first}:{first + binding.vector}]", False)
            self.values.store_at(binding, place, part, binding.vector, dtype)

    def _AssertStmt(self, node: Any) -> None:
        pass  # about arguments of the host

    def _IfThenElse(self, node: Any) -> None:
        condition = self.values(node.condition)
        outer, statement = self.values.mask, self.values.statement
        inner = self.emitter.name("m")
        self.emitter.line(f"{inner} = rt.narrowed({outer}, {condition.text}, {statement})")
        other = None
        if node.else_case is not None:
            other = self.emitter.name("m")
            self.emitter.line(f"{other} = rt.without({outer}, {inner})")
            if lookahead.wait_for_each_other(node.then_case, node.else_case):
                self._strands([(inner, node.then_case), (other, node.else_case)])
                return
        self._branch(inner, node.then_case)
        if other is not None:
            self._branch(other, node.else_case)

    def _strands(self, sides: list[tuple[str, Any]]) -> None:
        """Sides that may wait for one another: functions that run by turns."""
        names = []
        for mask, body in sides:
            if lookahead.may_leave(body):
                raise SimulationError("the simulator takes no return where lanes wait for others")
            names.append((self.emitter.name("side"), mask))
            self._branch(mask, body, f"def {names[-1][0]}():")
        pairs = ", ".join(f"({name}, {mask})" for name, mask in names)
        self.emitter.line(
            f"rt.strands.together([side for side, mask in [{pairs}] if mask is not NOBODY])"
        )

    def _branch(self, mask: str, body: Any, header: str = "") -> None:
        outer = self.values.mask
        self.masks.append(mask)
        self.values.mask = mask
        self.emitter.open()
        self._visit(body)
        self.emitter.close(header or f"if {mask} is not NOBODY:")
        self.values.mask = outer
        self.masks.pop()

    # Loops.

    def _For(self, node: Any) -> None:
        low, extent = self.values(node.min), self.values(node.extent)
        step = self.values(node.step) if node.step is not None else Code("1", True, 0, 1)
        if step.constant != 1:
            raise SimulationError(f"the simulator takes loops by steps of 1: {node.loop_var}")
        counter = self.emitter.name(str(node.loop_var.name))
        outer, statement = self.values.mask, self.values.statement
        same = low.uniform and extent.uniform
        if same and not lookahead.may_leave(node.body):
            self.emitter.open()
            self._bind_counter(node.loop_var, counter, low)
            self._visit(node.body)
            self.emitter.close(f"for {counter} in range({extent.text}):")
            return
        rounds = f"rt.rounds({extent.text}, {outer}, {statement})"
        self._masked_loop(
            f"for {counter} in range({rounds}):",
            node.body,
            lambda mask: f"rt.narrowed({mask}, {counter} < {extent.text}, {statement})",
            lambda: self._bind_counter(node.loop_var, counter, low),
        )

    def _bind_counter(self, var: Any, counter: str, low: Code) -> None:
        depth = self.emitter.depth
        code = Code(counter, True, depth)
        if low.constant != 0:
            if low.pure:
                code = self.values.compose(f"{low.text} + {counter}", low, code)
            else:
                code = self.emitter.here(f"{low.text} + {counter}", False)
        self.values.variables[var] = code

    def _While(self, node: Any) -> None:
        statement = self.values.statement

        def lasting(mask: str) -> str:
            self.values.mask = mask
            condition = self.values(node.condition)
            return f"rt.narrowed({mask}, {condition.text}, {statement})"

        self._masked_loop("while True:", node.body, lasting)

    def _masked_loop(
        self,
        header: str,
        body: Any,
        lasting: Callable[[str], str],
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """A loop that lanes leave one by one, or break out of."""
        outer = self.values.mask
        loop, this = self.emitter.name("m"), self.emitter.name("m")
        self.emitter.line(f"{loop} = {outer}")
        self.emitter.open()
        self.emitter.line(f"{loop} = {lasting(loop)}")
        self.emitter.line(f"if {loop} is NOBODY: break")
        self.emitter.line(f"{this} = {loop}")
        self.masks += [loop, this]
        self.loops.append((loop, len(self.masks) - 1))
        self.values.mask = this
        begin()
        self._visit(body)
        self.loops.pop()
        self.masks = self.masks[:-2]
        self.emitter.close(header)
        self.values.mask = outer

    def _leave(self, masks: list[str]) -> None:
        gone = self.emitter.here(self.values.mask, False, "gone").text
        for mask in masks:
            self.emitter.line(f"{mask} = rt.without({mask}, {gone})")

    def _Break(self, node: Any) -> None:
        _, first = self.loops[-1]
        self._leave(self.masks[first - 1 :])

    def _Continue(self, node: Any) -> None:
        _, first = self.loops[-1]
        self._leave(self.masks[first:])

    def _Return(self, node: Any) -> None:
        self.emitter.line(f"rt.leave({self.values.mask})")
        self._leave(list(dict.fromkeys(self.masks)))
