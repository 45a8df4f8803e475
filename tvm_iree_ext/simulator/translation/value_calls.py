"""Handlers of calls in device TIR; in this file those of arithmetic and of addresses.

A handler takes the translator and the call, and gives the value's code.  Handlers are found by the
operator's name; those of PTX by their instruction, those of LLVM by the intrinsic.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from tvm.target import codegen as llvm

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.machine.value_functions import (
    BINARY,
    UNARY,
    bfloat16_bits,
    library_name,
)
from tvm_iree_ext.simulator.translation.lane_expressions import (
    Expressions,
    dtype_of,
    lanes_of,
    operator_name,
)
from tvm_iree_ext.simulator.translation.python_source import Code
from tvm_iree_ext.tir.rounded_bits import BFLOAT16_BITS

Handler: TypeAlias = Callable[[Expressions, Any], Code]

HANDLERS: dict[str, Handler] = {}
"""By operator, without ``tirx.``: ``exp``, ``ptx.ldmatrix``, ``cuda.__shfl_sync``."""

INTRINSICS: dict[str, Handler] = {}
"""By LLVM's name without ``llvm.``; the arguments are those of the intrinsic."""

NOTHING = Code("None", True, 0)
ZERO = Code("0", True, 0, 0)


class Pointer(NamedTuple):
    """An address in a buffer: ``at`` counts scalars of ``dtype``."""

    view: str
    at: Code
    dtype: str


EXTERNS: dict[str, Handler] = {}
"""By how the name of a function of ours begins; the arguments are those of the function."""


def _registering(table: dict[str, Handler], names: tuple[str, ...]) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        table.update(dict.fromkeys(names, handler))
        return handler

    return register


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler of operators."""
    return _registering(HANDLERS, names)


def intrinsic(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler of LLVM's intrinsics."""
    return _registering(INTRINSICS, names)


def extern(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler of functions in LLVM IR that a device's pipeline calls."""
    return _registering(EXTERNS, names)


def call(tr: Expressions, node: Any) -> Code:
    """The value of a call."""
    name = operator_name(node)
    handler = HANDLERS.get(name)
    if handler is None and name.startswith("ptx."):
        handler = _by_prefix(HANDLERS, name)
    if handler is None and library_name(name):
        return mathematics(tr, library_name(name), list(node.args), dtype_of(node))
    if handler is None:
        raise SimulationError(f"the simulator does not know {name}: {node}")
    return handler(tr, node)


def _by_prefix(table: dict[str, Handler], name: str) -> Handler | None:
    found = [key for key in table if key.endswith("*") and name.startswith(key[:-1])]
    return table[max(found, key=len)] if found else None


def mathematics(tr: Expressions, name: str, args: list[Any], dtype: str) -> Code:
    """A mathematical function of values."""
    values = [tr(arg) for arg in args]
    texts = [tr.scalar(value, dtype_of(arg)) for value, arg in zip(values, args, strict=True)]
    if name == "fma":
        return tr.compose(f"fused({', '.join(texts)})", *values)
    if name in UNARY:
        function = tr.emitter.object(("unary", name), UNARY[name], name)
        return tr.compose(f"{function}({texts[0]})", *values)
    function = tr.emitter.object(("binary", name), BINARY[name], name)
    return tr.compose(f"{function}({texts[0]}, {texts[1]})", *values)


@handles(BFLOAT16_BITS)
def _rounded_to_bfloat16(tr: Expressions, node: Any) -> Code:
    value = tr(node.args[0])
    function = tr.emitter.object("bfloat16_bits", bfloat16_bits, "bfloat16_bits")
    return tr.compose(f"{function}({tr.scalar(value, 'float32')})", value)


def tokens_of(node: Any) -> tuple[list[Any], list[str]]:
    """Operands and modifiers of a PTX call; the last of its arguments is a marker."""
    operands = [arg for arg in node.args if type(arg).__name__ != "StringImm"]
    tokens = [str(arg.value) for arg in node.args if type(arg).__name__ == "StringImm"]
    if tokens and "pred" in tokens[-1].split(","):
        raise SimulationError(f"the simulator does not know predicated instructions: {node}")
    return operands, [token for token in tokens[:-1] if token]


def pointer(tr: Expressions, node: Any) -> Pointer:
    """Translate an address expression to a pointer."""
    kind = type(node).__name__
    name = operator_name(node)
    if kind == "Var" and node in tr.pointers:
        memory, dtype = tr.pointers[node], tr.pointer_types.get(node, "uint8")
        return Pointer(tr.view(memory, dtype), ZERO, dtype)
    if kind == "Call" and name in ("cuda.cvta_generic_to_shared", "reinterpret"):
        return pointer(tr, node.args[0])
    if kind == "Cast":
        return pointer(tr, node.value)
    if kind == "Call" and name == "address_of":
        load = node.args[0]
        binding = tr.buffers[load.source]
        index, _, _ = tr.place(load.indices, binding)
        return Pointer(binding.text, index, str(binding.element))
    if kind == "Call" and name == "buffer_data":
        binding = tr.buffers[node.args[0]]
        return Pointer(binding.text, ZERO, str(binding.element))
    if kind == "Call" and name == "tvm_access_ptr":
        base = pointer(tr, node.args[1])
        dtype = dtype_of(node.args[0])
        return retyped(tr, base, dtype, tr(node.args[2]))
    if kind == "Call" and name in ("ptr_byte_offset", "handle_add_byte_offset", "ptx.addr"):
        base = pointer(tr, node.args[0])
        there, offset = retyped(tr, base, "uint8", ZERO), tr(node.args[1])
        index = tr.compose(f"{there.at.text} + {offset.text}", there.at, offset)
        return retyped(tr, there._replace(at=index), base.dtype, ZERO)
    raise SimulationError(f"the simulator cannot tell where this points to: {node}")


def retyped(tr: Expressions, base: Pointer, dtype: str, offset: Code) -> Pointer:
    """The address as one of another type, and ``offset`` elements of it further."""
    index = base.at
    if (have := element_type(base.dtype).itemsize) != (want := element_type(dtype).itemsize):
        scale = f"* {have // want}" if have > want else f"// {want // have}"
        index = tr.compose(f"{index.text} {scale}", index)
    if offset.constant != 0:
        index = tr.compose(f"{index.text} + {offset.text}", index, offset)
    view = f"rt.view({base.view}.memory, {tr.dtype(element_type(dtype))}, {base.view}.name)"
    if element_type(dtype) == element_type(base.dtype):
        return Pointer(base.view, index, dtype)
    return Pointer(tr.emitter.here(view, True, "view").text, index, dtype)


@extern("tvm_iree_ext_settled_")
def _settled(tr: Expressions, node: Any) -> Code:
    return tr(node.args[0])


# Choices, bits.


@handles("if_then_else")
def _if_then_else(tr: Expressions, node: Any) -> Code:
    condition = tr(node.args[0])
    yes = tr.under(condition, node.args[1])
    otherwise = tr.compose(f"np.logical_not({condition.text})", condition)
    no = tr.under(otherwise, node.args[2])
    return tr.choice(condition, yes, no, dtype_of(node))


@handles("likely", "tvm_thread_invariant", "ignore_loop_partition")
def _same(tr: Expressions, node: Any) -> Code:
    return tr(node.args[0])


@handles("reinterpret")
def _reinterpret(tr: Expressions, node: Any) -> Code:
    value = tr(node.args[0])
    source, target = dtype_of(node.args[0]), dtype_of(node)
    kind = tr.dtype(element_type(target))
    text = tr.scalar(value, source)
    return tr.compose(f"bits({text}, {kind}, {lanes_of(target)})", value)


def _operator(symbol: str, tr: Expressions, node: Any) -> Code:
    a, b = tr(node.args[0]), tr(node.args[1])
    return tr.compose(f"{a.text} {symbol} {b.text}", a, b)


for _name, _symbol in {
    "shift_left": "<<",
    "shift_right": ">>",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
}.items():
    HANDLERS[_name] = partial(_operator, _symbol)


def _of_one(text: str, tr: Expressions, node: Any) -> Code:
    value = tr(node.args[0])
    return tr.compose(text.format(tr.scalar(value, dtype_of(node.args[0]))), value)


for _name, _text in {
    "bitwise_not": "np.invert({})",
    "isnan": "({0} != {0})",
    "isinf": "np.isinf({})",
    "isfinite": "np.isfinite({})",
    "popcount": "number_of_bits({})",
    "cuda.__popc": "number_of_bits({})",
    "cuda.__popcll": "number_of_bits({})",
    "clz": "leading_zeros({})",
    "abs": "np.abs({})",
}.items():
    HANDLERS[_name] = partial(_of_one, _text)


def _permuted(first: int, second: int, tr: Expressions, node: Any) -> Code:
    """Any four of the bytes of two words; ``first`` is the argument whose bytes are 0 to 3."""
    args = list(node.args)[-3:]
    values = [tr(arg) for arg in args]
    words = [tr.scalar(value, dtype_of(arg)) for value, arg in zip(values, args, strict=True)]
    place = 8 if second < first else 4
    picked = f"permuted_bytes({words[first]}, {words[second]}, {words[2]}, {place})"
    return tr.compose(picked, *values)


INTRINSICS["amdgcn.perm"] = partial(_permuted, 1, 0)
HANDLERS["cuda.__byte_perm"] = partial(_permuted, 0, 1)


@handles("ldexp")
def _ldexp(tr: Expressions, node: Any) -> Code:
    a, b = tr(node.args[0]), tr(node.args[1])
    return tr.compose(f"np.ldexp({a.text}, {b.text})", a, b)


# Functions by name.


@handles("call_pure_extern", "call_extern")
def _extern(tr: Expressions, node: Any) -> Code:
    name, args = str(node.args[0].value), list(node.args[1:])
    if name.startswith("atomic"):
        return HANDLERS["atomic"](tr, node)
    if name in ("__syncthreads", "__syncwarp"):
        kind = "cuda.cta_sync" if name == "__syncthreads" else "cuda.warp_sync"
        return HANDLERS[kind](tr, _Arguments([], node.ty))
    if f"cuda.{name}" in HANDLERS:
        return HANDLERS[f"cuda.{name}"](tr, _arguments(node))
    if _by_start(name) is not None:
        return function_call(tr, node, name, args)
    if name.startswith("tvm_iree_ext_"):  # stands for an instruction with types TVM lacks
        return HANDLERS["matrix function"](tr, node)
    if library_name(name):
        return mathematics(tr, library_name(name), args, dtype_of(node))
    raise SimulationError(f"the simulator does not know the function {name}: {node}")


def function_call(tr: Expressions, node: Any, name: str, args: list[Any]) -> Code:
    """The value of a function of ours.

    Raises:
        SimulationError: for one that is not among :data:`EXTERNS`.
    """
    handler = _by_start(name)
    if handler is None:
        raise SimulationError(f"the simulator does not know the function {name}: {node}")
    return handler(tr, _Arguments(args, node.ty, name))


_LLVM_NAMES = {
    "fmuladd": "fma", "maxnum": "fmax", "minnum": "fmin", "ctpop": "popcount",
    "amdgcn.rsq": "rsqrt", "amdgcn.log": "log2", "amdgcn.exp2": "exp2_approx_ftz_f",
}  # fmt: skip


@handles("call_llvm_pure_intrin", "call_llvm_intrin")
def _llvm(tr: Expressions, node: Any) -> Code:
    name = str(llvm.llvm_get_intrinsic_name(int(node.args[0].value))).removeprefix("llvm.")
    handler = INTRINSICS.get(name) or _by_prefix(INTRINSICS, name)
    if handler is not None:
        return handler(tr, node)
    if name == "arithmetic.fence":  # keeps LLVM from computing with what the value stands for
        return tr(node.args[1])
    plain = library_name(name.removeprefix("amdgcn."))
    plain = _LLVM_NAMES.get(name, plain)
    if plain == "popcount":
        return _of_one("number_of_bits({})", tr, _arguments(node))
    if not plain:
        raise SimulationError(f"the simulator does not know llvm.{name}: {node}")
    return mathematics(tr, plain, list(node.args[1:]), dtype_of(node))


def _by_start(name: str) -> Handler | None:
    return next((EXTERNS[start] for start in EXTERNS if name.startswith(start)), None)


class _Arguments(NamedTuple):
    args: list[Any]
    ty: Any
    name: str = ""  # of a function


def _arguments(node: Any) -> _Arguments:
    """A call of an intrinsic, as one of its arguments alone."""
    return _Arguments(list(node.args[1:]), node.ty)
