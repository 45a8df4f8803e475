"""TIR expressions as Python over NumPy values; calls are in :mod:`.value_calls`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from tvm import DataType, ir

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.translation.python_source import Code, PythonEmitter


def dtype_of(node: Any) -> str:
    """The name of an expression's type; ``handle`` for pointers."""
    return str(getattr(node.ty, "dtype", "handle"))


def operator_name(node: Any) -> str:
    """Name of a call's operator, such as ``if_then_else``; empty for any other node."""
    name = str(getattr(getattr(node, "op", None), "name", ""))
    return name.removeprefix("tirx.").removeprefix("prim.")


def lanes_of(dtype: str) -> int:
    """Elements of a vector type: 4 of ``float32x4``."""
    base, _, count = dtype.rpartition("x")
    return int(count) if base and count.isdigit() and base[-1].isdigit() else 1


@dataclass(frozen=True)
class Binding:
    """A buffer's counterpart in the source.

    Attributes:
        text: its name there: a ``View``, ``Registers`` or ``LaneView``.
        kind: ``view``, ``registers`` or ``lanes``.
        dtype: of one element, which may be a vector.
        size: elements of a local buffer, counted in scalars.
    """

    text: str
    kind: str
    dtype: str
    size: int = 0

    @property
    def element(self) -> np.dtype:
        """The type of a scalar element."""
        return element_type(self.dtype)

    @property
    def vector(self) -> int:
        """Scalars of an element."""
        return lanes_of(self.dtype)


_OPERATORS = {
    "Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%",
    "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^", "LShift": "<<", "RShift": ">>",
    "EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">=",
}  # fmt: skip


class Expressions:
    """Translates expressions at the emitter's current place.

    Attributes:
        variables: what a variable is.
        buffers: what a buffer is.
        pointers: the memory that a pointer variable points into, and as which type.
        mask: the name of the mask of lanes that take part.
        statement: the number of the statement that is being translated.
    """

    def __init__(self, emitter: PythonEmitter, call: Callable[["Expressions", Any], Code]) -> None:
        self.emitter = emitter
        self.variables: dict[Any, Code] = {}
        self.buffers: dict[Any, Binding] = {}
        self.pointers: dict[Any, str] = {}
        self.pointer_types: dict[Any, str] = {}
        self._views: dict[tuple[str, str], str] = {}
        self.mask = "m_0"
        self.statement = 0
        self.subgroup_size = 32
        self.chip = ""
        self._call = call

    def __call__(self, node: Any) -> Code:
        """The expression's value; emits what it needs."""
        kind = type(node).__name__
        if kind in _OPERATORS:
            return self._binary(kind, node)
        method = getattr(self, f"_{kind}", None)
        if method is None:
            raise SimulationError(f"the simulator does not know {kind}: {node}")
        return method(node)

    def constant(self, value: Any, hint: str = "") -> str:
        """The name of a NumPy scalar."""
        return self.emitter.object((type(value), value.tobytes()), value, hint)

    def dtype(self, dtype: np.dtype) -> str:
        """The name of a type."""
        return self.emitter.object(("dtype", dtype), dtype, str(dtype))

    def compose(self, text: str, *parts: Code) -> Code:
        """A new expression of those in it."""
        uniform = all(part.uniform for part in parts)
        if all(part.pure for part in parts):
            return self.emitter.pure(text, uniform, max((p.depth or 0 for p in parts), default=0))
        return self.emitter.here(text, uniform)

    def scalar(self, code: Code, dtype: str) -> str:
        """The text of a value as NumPy has it: uniform integers are Python's in between."""
        if not code.uniform or dtype.startswith(("float", "bfloat")):
            return code.text
        kind = element_type(dtype)
        if code.constant is not None:
            return self.constant(np.asarray(code.constant).astype(kind)[()])
        return f"np.asarray({code.text}).astype({self.dtype(kind)})[()]"

    def view(self, memory: str, dtype: str) -> str:
        """The name of a view of memory as elements of a type."""
        key = (memory, dtype)
        if key not in self._views:
            self._views[key] = name = self.emitter.name("view")
            self.emitter.line(f"{name} = rt.view({memory}, {self.dtype(element_type(dtype))})", 0)
        return self._views[key]

    # Leaves.

    def _IntImm(self, node: Any) -> Code:
        value = int(node.value)
        if dtype_of(node) == "bool":
            return Code(str(bool(value)), True, 0, value)
        return Code(str(value) if value >= 0 else f"({value})", True, 0, value)

    def _FloatImm(self, node: Any) -> Code:
        value = element_type(dtype_of(node)).type(node.value)
        return Code(self.constant(value, "f"), True, 0)

    def _StringImm(self, node: Any) -> Code:
        return Code(repr(str(node.value)), True, 0)

    def _Var(self, node: Any) -> Code:
        if node not in self.variables:
            raise SimulationError(f"variable {node} is used and was never bound")
        return self.variables[node]

    # Arithmetic.

    def _binary(self, kind: str, node: Any) -> Code:
        dtype = dtype_of(node)
        if kind in ("Add", "Sub") and not dtype.startswith(("float", "bfloat")):
            return self._sum(node)
        a, b = self(node.a), self(node.b)
        text = f"{a.text} {_OPERATORS[kind]} {b.text}"
        if a.constant is not None and b.constant is not None and kind != "LShift":
            value = int(eval(text))
            return Code(str(value) if value >= 0 else f"({value})", True, 0, value)
        if dtype.startswith("uint") and a.uniform and b.uniform and kind in ("Mul", "LShift"):
            text = f"({text}) & {(1 << 8 * element_type(dtype).itemsize) - 1}"
        return self.compose(text, a, b)

    def _sum(self, node: Any) -> Code:
        """A sum of integers, what changes least first."""
        terms: list[tuple[int, Code]] = []
        constant = 0

        def collect(part: Any, sign: int) -> None:
            nonlocal constant
            kind = type(part).__name__
            if kind in ("Add", "Sub"):
                collect(part.a, sign)
                collect(part.b, -sign if kind == "Sub" else sign)
                return
            code = self(part)
            if code.constant is not None:
                constant += sign * code.constant
            else:
                terms.append((sign, code))

        collect(node, 1)
        if dtype_of(node).startswith("uint"):
            constant %= 1 << DataType(dtype_of(node)).bits  # NumPy's numbers take no other
        terms.sort(key=lambda term: (term[1].depth is None, term[1].depth or 0, term[1].uniform))
        terms.sort(key=lambda term: (term[1].depth is None, term[1].depth or 0))
        total: Code | None = None
        for sign, code in terms:
            if total is None:
                total = code if sign > 0 else self.compose(f"-{code.text}", code)
            else:
                operator = "+" if sign > 0 else "-"
                total = self.compose(f"{total.text} {operator} {code.text}", total, code)
        if total is None:
            return Code(str(constant) if constant >= 0 else f"({constant})", True, 0, constant)
        if constant:
            total = self.compose(f"{total.text} + ({constant})", total)
        dtype = dtype_of(node)
        if dtype.startswith("uint") and total.uniform:
            word = (1 << 8 * element_type(dtype).itemsize) - 1
            total = self.compose(f"{total.text} & {word}", total)
        return total

    def _Div(self, node: Any) -> Code:
        a, b = self(node.a), self(node.b)
        if dtype_of(node).startswith(("float", "bfloat")):
            return self.compose(f"{a.text} / {b.text}", a, b)
        return self.compose(f"truncated_quotient({a.text}, {b.text})", a, b)

    def _Mod(self, node: Any) -> Code:
        a, b = self(node.a), self(node.b)
        return self.compose(f"truncated_remainder({a.text}, {b.text})", a, b)

    def _Min(self, node: Any) -> Code:
        return self._extreme("least", "min", node)

    def _Max(self, node: Any) -> Code:
        return self._extreme("greatest", "max", node)

    def _extreme(self, function: str, of_numbers: str, node: Any) -> Code:
        a, b = self(node.a), self(node.b)
        integers = not dtype_of(node).startswith(("float", "bfloat"))
        name = of_numbers if integers and a.uniform and b.uniform else function
        return self.compose(f"{name}({a.text}, {b.text})", a, b)

    def _BitwiseNot(self, node: Any) -> Code:
        a = self(node.a if hasattr(node, "a") else node.value)
        return self.compose(f"np.invert({self.scalar(a, dtype_of(node))})", a)

    def _Cast(self, node: Any) -> Code:
        value = self(node.value)
        source, target = dtype_of(node.value), dtype_of(node)
        if element_type(source) == element_type(target):
            return value
        integers = not (source + target).count("float")
        if integers and value.uniform and not target.startswith(("uint", "bool")):
            if source == "bool":
                return self.compose(f"int({value.text})", value)
            wide = element_type(target).itemsize >= element_type(source).itemsize
            return value if wide else self.compose(f"int({self.scalar(value, target)})", value)
        kind = self.dtype(element_type(target))
        return self.compose(f"cast({value.text}, {kind})", value)

    def _Not(self, node: Any) -> Code:
        a = self(node.a)
        return self.compose(f"np.logical_not({a.text})", a)

    def _And(self, node: Any) -> Code:
        return self._logical(node, "np.logical_and", holds=True)

    def _Or(self, node: Any) -> Code:
        return self._logical(node, "np.logical_or", holds=False)

    def _logical(self, node: Any, function: str, *, holds: bool) -> Code:
        """The second operand is evaluated where the first does not decide."""
        a = self(node.a)
        b = self.under(a if holds else self.compose(f"np.logical_not({a.text})", a), node.b)
        return self.compose(f"{function}({a.text}, {b.text})", a, b)

    def under(self, condition: Code, node: Any) -> Code:
        """An expression whose loads are made only by lanes for which the condition holds."""
        if not _has_effects(node):
            return self(node)
        outer = self.mask
        self.mask = self.emitter.name("m")
        self.emitter.line(f"{self.mask} = rt.narrowed({outer}, {condition.text}, {self.statement})")
        result = self(node)
        self.mask = outer
        return result

    def _Select(self, node: Any) -> Code:
        condition, yes = self(node.condition), self(node.true_value)
        return self.choice(condition, yes, self(node.false_value), dtype_of(node))

    def choice(self, condition: Code, yes: Code, no: Code, dtype: str) -> Code:
        """One of two values, by lane."""
        if condition.uniform and condition.pure:
            text = f"({yes.text} if {condition.text} else {no.text})"
        else:
            text = f"choose({condition.text}, {self.scalar(yes, dtype)}, {self.scalar(no, dtype)})"
        return self.compose(text, condition, yes, no)

    def _Let(self, node: Any) -> Code:
        self.variables[node.var] = self(node.value)
        return self(node.body)

    # Vectors.

    def _Ramp(self, node: Any) -> Code:
        base, stride = self(node.base), self(node.stride)
        count, dtype = int(node.lanes), str(node.base.ty.dtype)
        steps = self.emitter.object(
            ("steps", count, dtype), np.arange(count, dtype=dtype)[:, None], "steps"
        )
        result = self.compose(f"{base.text} + {stride.text} * {steps}", base, stride)
        return result._replace(uniform=False)

    def _Broadcast(self, node: Any) -> Code:
        value = self(node.value)
        return value._replace(text=self.scalar(value, dtype_of(node.value)), constant=None)

    def _Shuffle(self, node: Any) -> Code:
        parts = [self(vector) for vector in node.vectors]
        counts = [lanes_of(dtype_of(vector)) for vector in node.vectors]
        picked = [int(index) for index in node.indices]
        vectors = ", ".join(f"({part.text}, {n})" for part, n in zip(parts, counts, strict=True))
        return self.emitter.here(f"shuffled([{vectors}], {picked}, rt.lanes)", False)

    # Memory.

    def _TensorLoad(self, node: Any) -> Code:
        if node.source not in self.buffers:
            raise SimulationError(f"buffer {node.source} is used and was never declared")
        binding = self.buffers[node.source]
        index, count, scattered = self.place(node.indices, binding)
        if scattered:
            loads = [self.load_at(binding, each, binding.vector) for each in scattered]
            texts = ", ".join(load.text for load in loads)
            joined = "stacked" if binding.vector == 1 else "concatenated"
            return self.emitter.here(f"{joined}([{texts}], rt.lanes)", False)
        return self.load_at(binding, index, count)

    def place(self, indices: Any, binding: Binding) -> tuple[Code, int, list[Code]]:
        """First scalar and count of an access; or the places of one that is not consecutive."""
        if len(indices) != 1:
            raise SimulationError(
                f"an access of {binding.text} has {len(indices)} indices; the simulator takes"
                " device functions whose buffers are flat"
            )
        (index,) = indices
        vector = binding.vector
        if lanes_of(dtype_of(index)) == 1:
            return self._scaled(self(index), vector), vector, []
        if type(index).__name__ == "Ramp" and int(getattr(index.stride, "value", 0)) == 1:
            return self._scaled(self(index.base), vector), vector * int(index.lanes), []
        whole, count = self(index), lanes_of(dtype_of(index))
        at = self.emitter.here(f"rows({whole.text}, {count})", False)
        return (
            at,
            count,
            [
                self._scaled(self.emitter.here(f"{at.text}[{k}]", False), vector)
                for k in range(count)
            ],
        )

    def _scaled(self, index: Code, vector: int) -> Code:
        if vector == 1:
            return index
        if index.constant is not None:
            value = index.constant * vector
            return Code(str(value), True, 0, value)
        return self.compose(f"{index.text} * {vector}", index)

    def load_at(self, binding: Binding, index: Code, count: int) -> Code:
        """``count`` consecutive scalars."""
        name, mask, statement = binding.text, self.mask, self.statement
        if binding.kind == "view":
            text = f"{name}.load(rt, {index.text}, {mask}, {statement}, {count})"
            return self.emitter.here(text, False)
        if not index.uniform or not index.pure:
            if count > 1:
                steps = [f"{index.text} + {k}" for k in range(count)]
                loads = ", ".join(f"{name}.gather(rt, {s}, {mask}, {statement})" for s in steps)
                return self.emitter.here(f"stacked([{loads}], rt.lanes)", False)
            text = f"{name}.gather(rt, {index.text}, {mask}, {statement})"
            return self.emitter.here(text, False)
        at = self.register(binding, index, count)
        if binding.kind == "registers":
            if count == 1:
                return self.emitter.here(f"{name}[{at}]", False)
            return self.emitter.here(f"stacked({name}[{at}:{at} + {count}], rt.lanes)", False)
        if count == 1:
            return self.emitter.here(f"{name}.get({at})", False)
        loads = ", ".join(f"{name}.get({at} + {k})" for k in range(count))
        return self.emitter.here(f"stacked([{loads}], rt.lanes)", False)

    def register(self, binding: Binding, index: Code, count: int) -> str:
        """The text of a uniform index into a local buffer, checked."""
        last = binding.size - count
        if index.constant is not None and 0 <= index.constant <= last:
            return index.text
        checked = f"{binding.text}.at(rt, {index.text}, {count}, {self.mask}, {self.statement})"
        name = self.emitter.name("i")
        self.emitter.line(f"{name} = {index.text} if 0 <= {index.text} <= {last} else {checked}")
        return name

    def store_at(self, binding: Binding, index: Code, value: Code, count: int, dtype: str) -> None:
        """Store ``count`` consecutive scalars."""
        name, mask, statement = binding.text, self.mask, self.statement
        text = self.scalar(value, dtype)
        line = self.emitter.line
        if binding.kind == "view":
            line(f"{name}.store(rt, {index.text}, {text}, {mask}, {statement}, {count})")
            return
        if count > 1:
            many = self.emitter.here(f"rows({text}, {count})", False)
            for k in range(count):
                at = self.compose(f"{index.text} + {k}", index) if k else index
                if index.constant is not None:
                    at = Code(str(index.constant + k), True, 0, index.constant + k)
                self.store_at(binding, at, Code(f"{many.text}[{k}]", False), 1, dtype)
            return
        if not index.uniform or not index.pure:
            line(f"{name}.scatter(rt, {index.text}, {text}, {mask}, {statement})")
            return
        place = self.register(binding, index, 1)
        if binding.kind == "registers":
            merged = f"rt.merged({mask}, {text}, {name}[{place}])"
            line(f"{name}[{place}] = {text} if {mask} is None else {merged}")
        else:
            line(f"{name}.set(rt, {place}, {text}, {mask})")

    def _Call(self, node: Any) -> Code:
        return self._call(self, node)


def _has_effects(node: Any) -> bool:
    """Whether an expression loads or calls, that is whether it matters which lanes evaluate it."""
    found: list[Any] = []

    def look(part: Any) -> None:
        found.append(part)

    tvm_ffi.structural_walk(node, (ir.TensorLoad, look))
    tvm_ffi.structural_walk(node, (ir.Call, look))
    return bool(found)
