"""The state of an import: the Relax module that grows, and what each value of IR has become."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, relax, sym, tirx
from tvm.ir import IRModule, Range

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.mlir.base.elements import Element, element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    SCALARS,
    TENSORS,
    AnyTensor,
    Applied,
    Constant,
    Empty,
    Failed,
    Number,
    Scalar,
    Shape,
    Splat,
    Symbol,
    Tensor,
    Value,
    extent,
    extent_text,
    plain,
)
from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.mlir.importing.prim_func_builder import (
    ELEMENTWISE,
    MOST_EXTENT,
    OPAQUE,
    Kernel,
    tensor_type,
)
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of
from tvm_iree_ext.ops.base.op import Op

LARGEST_SCALAR = 64  # nodes of an expression; a larger one is computed once, into memory
_MOST_BYTES = 1 << 46  # no machine has more memory


@dataclass
class Program:
    """What the functions of a module share."""

    run: Callable[["Scope", form.Operation], list[Value]]  # the body of a function
    run_block: Callable[["Scope", form.Block], list[Value]]
    builder: relax.BlockBuilder = field(default_factory=relax.BlockBuilder)
    ops: dict[str, Op] = field(default_factory=dict)
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    globals: dict[str, form.Operation] = field(default_factory=dict)
    functions: dict[str, form.Operation] = field(default_factory=dict)
    constants: dict[str, Value] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    settled: dict[str, dict[tirx.Var, Any]] = field(default_factory=dict)
    helpers: set[str] = field(default_factory=set)  # functions that entry points name
    symbols: dict[str, str] = field(default_factory=dict)  # entry points, by what they are called
    dropped: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    most_steps: int = 0
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

    def report(self, op: form.Operation, what: str) -> None:
        """Note what is not supported."""
        self.problems.append(f"{op.location}: {op.name}: {what}")

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
        return IRModule(functions)

    def op_function(self, op: Op) -> ir.GlobalVar:
        """The canonical PrimFunc of an op of the registry, marked; equal ops have one."""
        identity = repr(op.describe())
        if identity not in self._ops:
            key = f"{op.entry}_{len(self.ops)}"
            func = op.prim_func().with_attr(OP_ATTRIBUTE, key).with_attr("op_pattern", OPAQUE)
            func = func.without_attr("global_symbol")
            self._ops[identity] = (key, self.builder.add_func(func, self.kernel_name(key)))
            self.ops[key] = op
        return self._ops[identity][1]


def _bound(func: relax.Function, settled: Mapping[tirx.Var, Any]) -> relax.Function:
    """A function whose settled extents are what they must equal."""
    values = {variable: extent(one) for variable, one in settled.items()}
    return func.bind_symbolic_vars(values) if values else func


@dataclass
class Function:
    """The Relax function under construction."""

    program: Program
    name: str
    builder: relax.BlockBuilder
    helpers: set[str] = field(default_factory=set)  # functions of regions, and of those in them
    constants: dict[int, tuple[Constant, list[relax.Var]]] = field(default_factory=dict)
    parameters: dict[str, relax.Var] = field(default_factory=dict)
    analyzer: sym.Analyzer = field(default_factory=sym.Analyzer)
    checks: list[Any] = field(default_factory=list)
    asserts: list[tuple[Scalar, str]] = field(default_factory=list)  # conditions and messages
    padded: dict[int, Any] = field(default_factory=dict)  # by id: a tensor, its source, its zeros
    elements: dict[int, tuple[Value, tuple[Scalar, ...]]] = field(default_factory=dict)  # by id
    in_place: set[int] = field(default_factory=set)  # operations, by id, that may write so
    counted: dict[int, tuple[int, Value]] = field(default_factory=dict)  # by id: 0, 1, ... along
    from_data: dict[int, tuple[Scalar, tirx.Var]] = field(default_factory=dict)
    extent_names: dict[str, str] = field(default_factory=dict)
    extents: list[tirx.Var] = field(default_factory=list)  # of the arguments, in order
    settled: dict[tirx.Var, Any] = field(default_factory=dict)  # those that must equal others
    steps: int = 0
    found: int = 0

    def inner(self) -> "Function":
        """A function for a region of this one."""
        builder = relax.BlockBuilder()
        return Function(self.program, self.name, builder, self.helpers, steps=self.steps)

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

    def extent_of_argument(self, name: str) -> tirx.Var:
        """An extent that a call tells."""
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
        """
        a, b = self.in_terms(a), self.in_terms(b)
        if not isinstance(a, int) or not isinstance(b, int):
            if self.analyzer.can_prove_equal(extent(a), extent(b)):
                return True
            for own in reversed(self.extents):
                for one, other in ((a, b), (b, a)):
                    if own.same_as(one) and self.is_said(other, own):
                        self.settled[own] = other
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


class Scope:
    """The values of a function, or of one that is called in it; and what is emitted for them."""

    def __init__(
        self,
        function: Function,
        depth: int = 0,
        calling: tuple[str, ...] = (),
        outer: "Scope | None" = None,
    ) -> None:
        self._outer = outer  # of a region that sees the values around it
        self.function, self.depth, self.calling = function, depth, calling
        self.program = function.program
        self._values: dict[int, Value] = {}

    def define(self, value: form.Value, found: Value) -> None:
        """Say what a value of IR is."""
        self._values[id(value)] = found

    def value(self, value: form.Value) -> Value:
        """What a value of IR is."""
        if id(value) not in self._values and self._outer is not None:
            return self._outer.value(value)
        found = self._values[id(value)]
        if isinstance(found, Failed):
            raise Dependent
        return found

    def any_tensor(self, value: form.Value) -> AnyTensor:
        """A value that is a tensor of some kind."""
        found = self.value(value)
        if isinstance(found, TENSORS):
            return found
        raise Unsupported(f"{value.name} is no tensor that is computed with")

    def scalar(self, value: form.Value) -> Scalar:
        """A value that is a scalar."""
        found = self.value(value)
        if isinstance(found, SCALARS):
            return found
        raise Unsupported(f"{value.name} is no scalar that is computed with")

    def number(self, value: form.Value) -> Any | None:
        """The number, where a value is one: a scalar, or a tensor with all elements alike."""
        found = self.value(value)
        if isinstance(found, Splat):
            found = found.scalar
        return found.value if isinstance(found, Number) else None

    def extent_of(self, scalar: Scalar) -> Any:
        """An integer scalar as an extent: a number, or arithmetic on extents.

        One that is computed from data is a variable of its own from here on.
        """
        if isinstance(scalar, Number):
            return int(scalar.value)
        if isinstance(scalar, Symbol):
            return self.simple(scalar.value)
        names = self.function.from_data
        if id(scalar) not in names:
            variable = tirx.Var(f"data{len(names)}", "int64")
            names[id(scalar)] = scalar, variable
            wide = Splat((1,), element("index"), self._as_index(scalar))
            (part,) = self.tensor(wide).parts
            shape = self.function.builder.emit(relax.op.tensor_to_shape(part))
            self.function.builder.match_cast(shape, relax.ShapeType([variable]))
        return names[id(scalar)][1]

    def _as_index(self, scalar: Applied) -> Scalar:
        """A scalar as an index: sign-extended."""
        if scalar.element.name == "index":
            return scalar
        source = form.Value(form.ScalarType(scalar.element.name), "%from")
        result = form.Value(form.ScalarType("index"), "%index")
        op = form.Operation("arith.index_cast", [source], [result], {}, [], form.Location(0, 0))
        return Applied(element("index"), op, 0, (scalar,), scalar.size + 1)

    def shape_of(self, kind: form.Type, sizes: Sequence[form.Value]) -> Shape:
        """A tensor type's shape, with these values for the extents that are not known."""
        if not isinstance(kind, form.TensorType):
            raise Unsupported(f"a result of the type {kind}")
        given = iter(sizes)
        return tuple(
            one if one is not None else self.extent_of(self.scalar(next(given)))
            for one in kind.shape
        )

    def simple(self, one: Any) -> Any:
        """An extent in its simplest form, by which equal ones are known."""
        if isinstance(one, int):
            return one
        found = self.function.analyzer.simplify(extent(self.function.in_terms(one)))
        return plain(tvm_ffi.structural_map(found, ((tirx.Max, tirx.Min), _sorted)))

    def same(self, a: Any, b: Any) -> bool:
        """Whether two extents are certainly equal."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return bool(self.function.analyzer.can_prove_equal(a, b))

    def tensor(self, value: AnyTensor) -> Tensor:
        """A tensor in memory, emitting what it takes."""
        match value:
            case Tensor():
                return value
            case Constant():
                return self._constant(value)
        kernel = Kernel(self, "fill", [value], [(value.shape, value.element)], ELEMENTWISE)
        with kernel:
            kernel.block(
                "fill",
                value.shape,
                lambda at: kernel.put(0, kernel.copied(value, _place(at)), _place(at)),
            )
        return kernel.results[0]

    def in_memory(self, value: form.Value) -> Tensor:
        """A value that is a tensor, in memory."""
        return self.tensor(self.any_tensor(value))

    def computed(self, value: Scalar) -> Tensor:
        """A scalar as a tensor of rank 0."""
        return self.tensor(Splat((), value.element, value))

    def applied(self, op: form.Operation, operands: Sequence[Value]) -> list[Scalar]:
        """Scalars that an operation computes."""
        size = 8 + sum(one.size for one in operands if isinstance(one, Applied))
        kinds = [kind_of(value) for value in op.results]
        found = [Applied(kind, op, i, tuple(operands), size) for i, kind in enumerate(kinds)]
        if size <= LARGEST_SCALAR:
            return list(found)
        return [read_back(self.computed(one)) for one in found]

    def _constant(self, value: Constant) -> Tensor:
        array, kind = value.array, value.element
        function = self.function
        if id(value) not in function.constants:
            parts = [array.real, array.imag] if kind.is_complex else [array]
            variables = []
            for part in parts:
                part = as_stored(part, kind.part if kind.is_complex else kind)
                name = self.program.parameter(part, "constant")
                if name not in function.parameters:
                    kind_of_part = tensor_type(tuple(part.shape), str(part.dtype))
                    function.parameters[name] = relax.Var(name, kind_of_part)
                variables.append(function.parameters[name])
            function.constants[id(value)] = value, variables
        return Tensor(value.shape, kind, tuple(function.constants[id(value)][1]))

    def call(
        self,
        func: tirx.PrimFunc,
        name: str,
        arguments: Sequence[Any],
        outputs: Sequence[tuple[Shape, str]],
        written: Sequence[relax.Var] = (),
    ) -> list[relax.Var]:
        """Emit a call of a PrimFunc; a variable for each output, or for those ``written`` anew."""
        builder = self.program.builder
        gvar = builder.add_func(func.without_attr("global_symbol"), self.program.kernel_name(name))
        places = [next(i for i, a in enumerate(arguments) if a is one) for one in written]
        return self.call_global(gvar, arguments, outputs, places)

    def call_global(
        self,
        gvar: ir.GlobalVar,
        arguments: Sequence[Any],
        outputs: Sequence[tuple[Shape, str]],
        in_place: Sequence[int] = (),
    ) -> list[relax.Var]:
        """Emit a call of a PrimFunc of the module."""
        builder = self.function.builder
        for shape, dtype in outputs:
            known = prod(one for one in map(plain, shape) if isinstance(one, int))
            if known * item_bytes(dtype) > _MOST_BYTES:
                raise Unsupported(f"a tensor of {known * item_bytes(dtype)} bytes")
        types = [tensor_type(shape, dtype) for shape, dtype in outputs]
        given, kind = relax.Tuple(list(arguments)), types if len(types) > 1 else types[0]
        if in_place:
            called = relax.op.call_tir_inplace(gvar, given, list(in_place), kind)
        else:
            called = relax.op.call_tir(gvar, given, kind)
        found = builder.emit(called)
        if len(types) == 1:
            return [found]
        return [builder.emit(relax.TupleGetItem(found, i)) for i in range(len(types))]

    def called_op(
        self, op: Op, arguments: Sequence[Any], outputs: Sequence[tuple[Shape, Element]]
    ) -> list[Tensor]:
        """Emit a call of an op of the registry, whose results have real element types."""
        gvar = self.program.op_function(op)
        parts = self.call_global(
            gvar, arguments, [(shape, kind.storage[0]) for shape, kind in outputs]
        )
        return [
            Tensor(tuple(shape), kind, (part,))
            for (shape, kind), part in zip(outputs, parts, strict=True)
        ]

    def as_shape(self, value: AnyTensor, shape: Shape) -> AnyTensor:
        """The same tensor with extents that are known to be equal, or are checked at run time."""
        shape = tuple(self.simple(one) for one in shape)
        if len(shape) != len(value.shape):
            raise Unsupported(f"a tensor of rank {len(value.shape)} where rank {len(shape)} is due")
        if all(_identical(a, b) for a, b in zip(value.shape, shape, strict=True)):
            return value
        for a, b in zip(value.shape, shape, strict=True):
            a, b = self.simple(a), self.simple(b)
            if isinstance(a, int) and isinstance(b, int) and a != b:
                raise Unsupported(f"an extent of {a} where {b} is due")
        is_settled = [self.function.settle(a, b) for a, b in zip(value.shape, shape, strict=True)]
        shape = tuple(self.simple(one) for one in shape)
        match value:
            case Splat():
                return Splat(shape, value.element, value.scalar)
            case Empty():
                return Empty(shape, value.element)
        tensor = self.tensor(value)
        if all(is_settled):
            return Tensor(shape, tensor.element, tensor.parts)
        builder = self.function.builder
        parts = tuple(
            builder.match_cast(part, tensor_type(shape, dtype))
            for part, dtype in zip(tensor.parts, tensor.element.storage, strict=True)
        )
        return Tensor(shape, tensor.element, parts)


class Dependent(Exception):
    """Raised for a value that failed before: that is reported already."""


def _identical(a: Any, b: Any) -> bool:
    return a == b if isinstance(a, int) and isinstance(b, int) else str(a) == str(b)


def _sorted(extreme: Any) -> Any:
    """The larger or smaller of two, which TVM leaves as they come, in one order."""
    return type(extreme)(*sorted((extreme.a, extreme.b), key=str))


def _place(at: Any) -> list[Any]:
    return [at[dim] for dim in sorted(at)]


def read_back(tensor: Tensor) -> Applied:
    """The scalar that a tensor of rank 0 holds."""
    place = form.Location(0, 0)
    result = form.Value(form.ScalarType(tensor.element.name), "%computed")
    op = form.Operation("tensor.extract", [], [result], {}, [], place)
    return Applied(tensor.element, op, 0, (tensor,))


def as_stored(array: np.ndarray, kind: Element) -> np.ndarray:
    """A constant's elements as its buffers hold them."""
    array = np.asarray(array, order="C")  # ascontiguousarray would give rank 0 an axis
    if kind.is_float and kind.storage[0] == "uint8":
        return array.view(np.uint8)
    return array if kind.storage[0] == "bfloat16" else array.astype(kind.storage[0])
