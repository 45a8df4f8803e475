"""What each value of IR has become while its function is imported, and calls of kernels."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.mlir.base.elements import Element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    SCALARS,
    TENSORS,
    AnyTensor,
    Constant,
    Failed,
    Number,
    Scalar,
    Shape,
    Splat,
    Tensor,
    Value,
    extent,
    plain,
)
from tvm_iree_ext.mlir.importing.import_state import FunctionImport
from tvm_iree_ext.mlir.importing.places import placed
from tvm_iree_ext.mlir.importing.relax_types import tensor_type
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.ops.base.op import Op

_MOST_BYTES = 1 << 46  # no machine has more memory


class Scope:
    """The values of a function, or of one that is called in it, and calls that are emitted."""

    def __init__(
        self,
        function: FunctionImport,
        depth: int = 0,
        calling: tuple[str, ...] = (),
        outer: "Scope | None" = None,
    ) -> None:
        self._outer = outer  # of a region that sees the values around it
        self.function, self.depth, self.calling = function, depth, calling
        self.program = function.program
        self._values: dict[int, Value] = {}

    def define(self, value: form.ParsedValue, found: Value) -> None:
        """Say what a value of IR is."""
        self._values[id(value)] = found

    def value(self, value: form.ParsedValue) -> Value:
        """What a value of IR is."""
        if id(value) not in self._values and self._outer is not None:
            return self._outer.value(value)
        found = self._values[id(value)]
        if isinstance(found, Failed):
            raise Dependent
        return found

    def any_tensor(self, value: form.ParsedValue) -> AnyTensor:
        """A value that is a tensor of some kind."""
        found = self.value(value)
        if isinstance(found, TENSORS):
            return found
        raise Unsupported(f"{value.name} is no tensor that is computed with")

    def scalar(self, value: form.ParsedValue) -> Scalar:
        """A value that is a scalar."""
        found = self.value(value)
        if isinstance(found, SCALARS):
            return found
        raise Unsupported(f"{value.name} is no scalar that is computed with")

    def number(self, value: form.ParsedValue) -> Any | None:
        """The number, where a value is one: a scalar, or a tensor with all elements alike."""
        found = self.value(value)
        if isinstance(found, Splat):
            found = found.scalar
        return found.value if isinstance(found, Number) else None

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

    def constant(self, value: Constant) -> Tensor:
        """A constant as parameters of the function, shared by all that read it."""
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
        found = builder.emit(placed(called, self.program.operation))
        if len(types) == 1:
            return [found]
        return [builder.emit(relax.TupleGetItem(found, i)) for i in range(len(types))]

    def called_op(
        self,
        op: Op,
        arguments: Sequence[Any],
        outputs: Sequence[tuple[Shape, Element]],
        in_memory: Mapping[str, str],
    ) -> list[Tensor]:
        """Emit a call of an op of the registry, whose results have real element types.

        ``in_memory`` are its scalars that come as tensors of rank 0, with their element types.
        """
        gvar = self.program.op_function(op, in_memory)
        parts = self.call_global(
            gvar, arguments, [(shape, kind.storage[0]) for shape, kind in outputs]
        )
        return [
            Tensor(tuple(shape), kind, (part,))
            for (shape, kind), part in zip(outputs, parts, strict=True)
        ]


class Dependent(Exception):
    """Raised for a value that failed before: that is reported already."""


def _sorted(extreme: Any) -> Any:
    """The larger or smaller of two, which TVM leaves as they come, in one order."""
    return type(extreme)(*sorted((extreme.a, extreme.b), key=str))


def as_stored(array: np.ndarray, kind: Element) -> np.ndarray:
    """A constant's elements as its buffers hold them."""
    array = np.asarray(array, order="C")  # ascontiguousarray would give rank 0 an axis
    if kind.is_float and kind.storage[0] == "uint8":
        return array.view(np.uint8)
    return array if kind.storage[0] == "bfloat16" else array.astype(kind.storage[0], copy=False)
