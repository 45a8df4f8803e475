"""Keep buffers of bfloat16 and 8-bit floats what they are, as integers of their width.

TVM's ``BF16ComputeLegalize`` and ``FP8ComputeLegalize`` turn every buffer that a kernel allocates
into one of float32, so that shared memory doubles, or more, and fragments are no longer what a
matrix instruction takes.  A buffer of integers is left alone; what arithmetic there is converts
where it loads and stores.
"""

from typing import Any

import numpy as np
import tvm_ffi
from tvm import DataType, ir, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.tir.element_types import element_types
from tvm_iree_ext.tir.function_body import with_body
from tvm_iree_ext.tir.purity import is_guard

_NARROW = ("bfloat16", "float8_")


@tirx.transform.prim_func_pass(opt_level=0)
def keep_narrow_storage(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Allocate buffers of narrow floats as unsigned integers, and reinterpret what is accessed."""
    func = with_body(func, _unbound(func.body))
    words, dtypes = _words(func.body)
    dtypes_of_params = (str(getattr(param.ty, "dtype", "")) for param in func.params)
    if not words and not any(dtype.startswith(_NARROW) for dtype in dtypes_of_params):
        return func

    target = (func.attrs or {}).get("target")
    rounds = target is not None and target.kind.name != "cuda"  # which has the type

    # Children come first: a load's buffer is already that of words.
    def load(node: Any) -> Any:
        if (dtype := dtypes.get(hash(node.source))) is None:
            return node
        word = tirx.BufferLoad(node.source, node.indices)
        lanes = DataType(str(word.ty.dtype)).lanes
        return tirx.reinterpret(_vector(dtype, lanes), word)

    def store(node: Any) -> Any:
        if hash(node.buffer) not in dtypes:
            return node
        return tirx.BufferStore(node.buffer, _as_words(node.value, rounds), node.indices)

    def call(node: Any) -> Any:
        """A pointer is to words; a value reinterpreted twice is reinterpreted once.

        So is each of two that are chosen from: TVM would make the choice one of float32.
        """
        if node.op.same_as(_ACCESS_PTR) and _pointed_at(node) in dtypes:
            bits = DataType(dtypes[_pointed_at(node)]).bits
            words_of = tirx.type_annotation(f"uint{bits}")
            return ir.Call(node.op, [words_of, *node.args[1:]], ret_ty=node.ty)
        if not node.op.same_as(_REINTERPRET):
            return node
        (inner,) = node.args
        if isinstance(inner, ir.Call) and inner.op.same_as(_REINTERPRET):
            return _reinterpreted(str(node.ty.dtype), inner.args[0])
        if str(inner.ty.dtype).startswith(_NARROW):
            return _reinterpreted(str(node.ty.dtype), _as_words(inner, rounds))
        return node

    body = tvm_ffi.structural_map(
        func.body,
        [
            (ir.Var, lambda var: words.get(hash(var), var)),
            (TensorLoad, load),
            (tirx.BufferStore, store),
            (ir.Call, call),
        ],
    )
    return with_body(func, body)


def _words(body: Any) -> tuple[dict[int, Any], dict[int, str]]:
    """Buffers of words by those of narrow floats, and what the words are of, by identities."""
    words: dict[int, Any] = {}
    dtypes: dict[int, str] = {}

    def see(alloc: Any) -> None:
        buffer = alloc.buffer
        dtype = str(buffer.dtype)
        if dtype.startswith(_NARROW):
            bits, lanes = DataType(dtype).bits, DataType(dtype).lanes
            word = tirx.decl_buffer(
                buffer.shape, _vector(f"uint{bits}", lanes), buffer.name, scope=buffer.scope(),
                data_alignment=int(buffer.data_alignment), strides=buffer.strides,
            )  # fmt: skip
            words[hash(buffer)] = word
            dtypes[hash(word)] = dtype.split("x")[0]

    tvm_ffi.structural_walk(body, (tirx.AllocBuffer, see))
    return words, dtypes


def _unbound(body: Any) -> Any:
    """The body with narrow floats in the places of what expressions bind.

    TVM's legalization looks at what is bound neither for its type nor for what it is computed of.
    """
    values: dict[int, Any] = {}  # of variables, by their identities

    def let(node: Any, mutator: Any) -> Any:
        value = mutator.mutate(node.value)
        if not _has_narrow(value):
            return tirx.Let(node.var, value, mutator.mutate(node.body))
        values[hash(node.var)] = value
        return mutator.mutate(node.body)

    def variable(var: Any, _mutator: Any) -> Any:
        return values.get(hash(var), var)

    return tvm_ffi.structural_mutate(body, [(tirx.Let, let), (ir.Var, variable)])


def _has_narrow(value: Any) -> bool:
    """Whether an expression computes with narrow floats."""
    return any(dtype.startswith(_NARROW) for dtype in element_types(value))


@tirx.transform.prim_func_pass(opt_level=0)
def reinterpret_vectors(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Reinterpret a vector of one element's copies as a whole.

    TVM's legalization of storage takes off a reinterpretation that a store's value is, to leave the
    words; one inside a broadcast, which a constant becomes, it does not see.
    """

    def broadcast(node: Any) -> Any:
        inner, dtype = node.value, str(node.ty.dtype)
        if not dtype.startswith(_NARROW) or not isinstance(inner, ir.Call):
            return node
        if not inner.op.same_as(_REINTERPRET):
            return node
        return tirx.reinterpret(dtype, tirx.Broadcast(inner.args[0], node.lanes))

    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.Broadcast, broadcast)))


_COMPUTED = (
    ir.Call,  # of a function, such as exp
    tirx.Cast,
    tirx.Add,
    tirx.Sub,
    tirx.Mul,
    tirx.Div,
    tirx.Max,
    tirx.Min,
    tirx.Select,
)
_ACCESS_PTR = ir.Op.get("tirx.tvm_access_ptr")
_REINTERPRET = ir.Op.get("tirx.reinterpret")


def _pointed_at(pointer: Any) -> int:
    """The buffer of ``buffer.data``, as an identity."""
    data = pointer.args[1]
    return hash(data.args[0]) if isinstance(data, ir.Call) and data.args else 0


def _vector(dtype: str, lanes: int) -> str:
    return f"{dtype}x{lanes}" if lanes > 1 else dtype


def _as_words(value: Any, rounds: bool) -> Any:
    """Words to store for a value; with ``rounds`` TVM is not left to round what is computed."""
    dtype = DataType(str(value.ty.dtype))
    name = _vector(f"uint{dtype.bits}", dtype.lanes)
    if isinstance(value, ir.Call) and value.op.same_as(_REINTERPRET):
        return _reinterpreted(name, value.args[0])
    if is_guard(value):
        condition, *choices = value.args  # TVM cannot vectorize what is reinterpreted as a whole
        return tirx.if_then_else(condition, *(_as_words(one, rounds) for one in choices))
    number = value.value if isinstance(value, tirx.Broadcast) else value
    if isinstance(number, tirx.FloatImm):  # which TVM would make a float32, of twice the bits
        held = np.asarray(float(number.value), numpy_dtype(str(number.ty.dtype)))
        return tirx.const(int(held.view(f"uint{dtype.bits}")), name)
    if rounds and dtype.bits == 16 and isinstance(value, _COMPUTED):
        return _rounded(value, dtype.lanes)
    return tirx.reinterpret(name, value)


def _rounded(value: Any, lanes: int) -> Any:
    """The words of a bfloat16 that TVM computes as float32, and would leave so: to nearest even."""
    whole = value.value if isinstance(value, tirx.Cast) else value
    kind = _vector("uint32", lanes)
    word = tirx.reinterpret(kind, tirx.Cast(_vector("float32", lanes), whole))

    def number(of: int) -> Any:
        return tirx.const(of, kind)

    upper = word >> number(16)
    nearest = (word + number(0x7FFF) + (upper & number(1))) >> number(16)
    is_nan = (word & number(0x7FFFFFFF)) > number(0x7F800000)
    chosen = tirx.Select(is_nan, upper | number(0x40), nearest)
    return tirx.Cast(_vector("uint16", lanes), chosen)


def _reinterpreted(dtype: str, value: Any) -> Any:
    return value if str(value.ty.dtype) == dtype else tirx.reinterpret(dtype, value)
