"""Words of 128 bits as two of 64: no target but LLVM's has such integers.

A parameter of them gets a last axis of two, the lower half first; what is computed of them are
choices, and the halves that make a word or are taken of one.
"""

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.tir.number_words import word_constant
from tvm_iree_ext.tir.purity import is_guard

_WIDE, _HALF, _BITS = "uint128", "uint64", 64


@tirx.transform.prim_func_pass(opt_level=0)
def halve_wide_words(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Halve all buffers of wide words, the parameters too; once buffers are flat.

    Raises:
        BuildError: for arithmetic on them.
    """
    halved: dict[int, Any] = {}  # buffers of halves by wide ones, by their identities

    def halves(buffer: Any, shape: list[Any]) -> Any:
        return tirx.decl_buffer(
            shape, _HALF, buffer.name, scope=buffer.scope(),
            data_alignment=int(buffer.data_alignment),
        )  # fmt: skip

    def see(node: Any) -> None:
        if _is_wide(node.buffer):
            (extent,) = node.buffer.shape
            halved[hash(node.buffer)] = halves(node.buffer, [extent * _like(extent, 2)])

    for param in func.params:
        if _is_wide(param):
            halved[hash(param)] = halves(param, [*param.shape, tirx.const(2, "int64")])
    tvm_ffi.structural_walk(func.body, ((tirx.AllocBuffer, tirx.DeclBuffer), see))
    if not halved:
        return func
    body = tvm_ffi.structural_mutate(func.body, _handlers(halved))
    params = [halved.get(hash(param), param) for param in func.params]
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs)


def _handlers(halved: dict[int, Any]) -> list[Any]:
    bound: dict[int, tuple[Any, Any]] = {}  # the halves of variables

    def half(value: Any, which: int, mutator: Any) -> Any:
        """One half of a wide expression."""
        match value:
            case TensorLoad():
                return load(value, which, mutator)
            case ir.Var() if hash(value) in bound:
                return bound[hash(value)][which]
            case tirx.IntImm():
                word = int(value.value) >> _BITS * which & (1 << _BITS) - 1
                return word_constant(word, _HALF)
            case tirx.Cast(value=inner):
                return tirx.Cast(_HALF, mutator.mutate(inner)) if not which else _zero()
            case tirx.Broadcast(value=inner, lanes=lanes):
                return tirx.Broadcast(half(inner, which, mutator), lanes)
            case tirx.Select():
                return tirx.Select(
                    mutator.mutate(value.condition),
                    half(value.true_value, which, mutator),
                    half(value.false_value, which, mutator),
                )
            case tirx.Shuffle(vectors=vectors, indices=indices):
                return tirx.Shuffle([half(one, which, mutator) for one in vectors], indices)
            case tirx.BitwiseOr(a=a, b=b):
                return half(a, which, mutator) | half(b, which, mutator)
            case tirx.LShift(a=a, b=tirx.IntImm(value=64)):
                return half(a, 0, mutator) if which else _zero()
            case tirx.RShift(a=a, b=tirx.IntImm(value=64)):
                return _zero() if which else half(a, 1, mutator)
        if isinstance(value, ir.Call) and is_guard(value):
            condition, *choices = value.args
            return tirx.if_then_else(
                mutator.mutate(condition), *(half(one, which, mutator) for one in choices)
            )
        raise BuildError(f"words of 128 bits are not computed with; {value} came")

    def load(node: Any, which: int, mutator: Any) -> Any:
        (index,) = node.indices
        return tirx.BufferLoad(halved[hash(node.source)], [_at(mutator.mutate(index), which)])

    def store(node: Any, mutator: Any) -> Any:
        target, indices = halved.get(hash(node.buffer)), [*map(mutator.mutate, node.indices)]
        if target is None:
            return tirx.BufferStore(node.buffer, mutator.mutate(node.value), indices)
        values = [half(node.value, which, mutator) for which in (0, 1)]
        before = []
        if _reads(node.value, node.buffer):  # of what the first store changes
            names = [tirx.Var(f"half{which}", one.ty) for which, one in enumerate(values)]
            before = [tirx.Bind(name, one) for name, one in zip(names, values, strict=True)]
            values = names
        stores = [
            tirx.BufferStore(target, one, [_at(indices[0], which)])
            for which, one in enumerate(values)
        ]
        return tirx.SeqStmt([*before, *stores])

    def cast(node: Any, mutator: Any) -> Any:
        if not _is_wide(node.value):
            return tirx.Cast(str(node.ty.dtype), mutator.mutate(node.value))
        return tirx.Cast(str(node.ty.dtype), half(node.value, 0, mutator))

    def bind(node: Any, mutator: Any) -> Any:
        if not _is_wide(node.var):
            return tirx.Bind(node.var, mutator.mutate(node.value))
        values = [half(node.value, which, mutator) for which in (0, 1)]
        names = [tirx.Var(f"{node.var.name}{n}", one.ty) for n, one in enumerate(values)]
        bound[hash(node.var)] = (names[0], names[1])
        return tirx.SeqStmt([tirx.Bind(name, one) for name, one in zip(names, values, strict=True)])

    def alloc(node: Any, mutator: Any) -> Any:
        made = halved.get(hash(node.buffer))
        return node if made is None else tirx.AllocBuffer(made, node.annotations)

    def declare(node: Any, mutator: Any) -> Any:
        made = halved.get(hash(node.buffer))
        return node if made is None else tirx.DeclBuffer(made, data=mutator.mutate(node.data))

    def call(node: Any, mutator: Any) -> Any:
        match node.args:
            case [ir.Var() as buffer] if hash(buffer) in halved:  # its memory
                return halved[hash(buffer)].data
            case [TensorLoad() as element] if node.op.same_as(_ADDRESS) and _is_wide(element):
                return tirx.address_of(load(element, 0, mutator))
        return ir.Call(node.op, [*map(mutator.mutate, node.args)], node.attrs, ret_ty=node.ty)

    return [
        (tirx.BufferStore, store),
        (tirx.AllocBuffer, alloc),
        (tirx.DeclBuffer, declare),
        (tirx.Cast, cast),
        (tirx.Bind, bind),
        (ir.Call, call),
    ]


_ADDRESS = ir.Op.get("tirx.address_of")


def _is_wide(value: Any) -> bool:
    """Whether a buffer, a variable or an expression is of wide words."""
    dtype = getattr(value, "dtype", None) or getattr(value.ty, "dtype", None)
    return dtype is not None and str(dtype).startswith(_WIDE)


def _like(index: Any, number: int) -> Any:
    """A number of the type of an index, for each of its lanes."""
    name, lanes = str(index.ty.dtype), int(index.ty.dtype.lanes)
    if lanes == 1:
        return tirx.const(number, name)
    return tirx.Broadcast(tirx.const(number, name.rpartition("x")[0]), lanes)


def _at(index: Any, which: int) -> Any:
    """The place of a half."""
    if isinstance(index, tirx.Ramp):
        base, stride = _at(index.base, which), index.stride * _like(index.stride, 2)
        return tirx.Ramp(base, stride, index.lanes)
    return index * _like(index, 2) + _like(index, which)


def _zero() -> Any:
    return tirx.const(0, _HALF)


def _reads(value: Any, buffer: Any) -> bool:
    """Whether an expression loads of a buffer."""
    found: list[Any] = []
    tvm_ffi.structural_walk(value, (TensorLoad, lambda node: found.append(node.source)))
    return any(hash(one) == hash(buffer) for one in found)
