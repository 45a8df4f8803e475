"""Expressions that TVM's vectorization would compute lane by lane, rewritten."""

from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx

from tvm_iree_ext.tir.function_body import with_body

_ISNAN = ir.Op.get("tirx.isnan")
# By type: its words, the magnitude's bits, and those of infinity, beyond which are NaNs.
_WORDS = {
    "float16": ("int16", 0x7FFF, 0x7C00),
    "float32": ("int32", 0x7FFFFFFF, 0x7F800000),
    "float64": ("int64", (1 << 63) - 1, 0x7FF << 52),
}


@tirx.transform.prim_func_pass(opt_level=0)
def compare_words_for_nan(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Test for NaN by integers in vectors, as ``VectorizeLoop`` takes no ``isnan``."""

    def call(node: ir.Call) -> Any:
        if not node.op.same_as(_ISNAN):
            return node
        (value,) = node.args
        dtype = str(value.ty.dtype)
        if dtype not in _WORDS or isinstance(value, tirx.FloatImm):  # vectors are fine as they are
            return node
        word, magnitude, infinity = _WORDS[dtype]
        bits = tirx.bitwise_and(tirx.reinterpret(word, value), tirx.const(magnitude, word))
        return tirx.GT(bits, tirx.const(infinity, word))

    def loop(node: tirx.For) -> Any:
        if node.kind != tirx.ForKind.VECTORIZED:
            return node
        body = tvm_ffi.structural_map(node.body, (ir.Call, call))
        return tirx.For(node.loop_var, node.min, node.extent, node.kind, body)

    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.For, loop)))


@tirx.transform.prim_func_pass(opt_level=0)
def broadcast_words(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Broadcast the words of a bfloat16, as ``BF16StorageLegalize`` sees no broadcast number."""

    def broadcast(node: tirx.Broadcast) -> Any:
        value = node.value
        if str(value.ty.dtype) != "bfloat16":
            return node
        lanes = DataType(str(node.ty.dtype)).lanes
        is_word = isinstance(value, ir.Call) and str(value.args[0].ty.dtype) == "uint16"
        word = value.args[0] if is_word else tirx.reinterpret("uint16", value)
        return tirx.reinterpret(f"bfloat16x{lanes}", tirx.Broadcast(word, lanes))

    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.Broadcast, broadcast)))


@tirx.transform.prim_func_pass(opt_level=0)
def bind_words(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Bind the words of a vector, where that is computed of vectors of bools.

    TVM asks for the interval of all that is bound, and has none for a comparison of vectors: it
    fails.  It does not ask for that of reinterpreted words, which cost nothing, nor look at what
    a ``Select`` is decided by.
    """
    comparing = _comparing_variables(func.body)
    if not comparing:
        return func
    words: dict[int, Any] = {}  # by the variables' identities, what stands for them

    def words_of(node: tirx.Let | tirx.Bind, mutator: Any) -> tuple[ir.Var, Any]:
        value = mutator.mutate(node.value)
        value, variable, words[hash(node.var)] = _as_words(value, node.var.name)
        return variable, value

    def let(node: tirx.Let, mutator: Any) -> Any:
        if hash(node.var) not in comparing:
            return mutator.default_mutate(node)
        return tirx.Let(*words_of(node, mutator), mutator.mutate(node.body))

    def bind(node: tirx.Bind, mutator: Any) -> Any:
        if hash(node.var) not in comparing:
            return mutator.default_mutate(node)
        return tirx.Bind(*words_of(node, mutator))

    def variable(var: Any, _mutator: Any) -> Any:
        return words.get(hash(var), var)

    callbacks = [(tirx.Let, let), (tirx.Bind, bind), (ir.Var, variable)]
    return with_body(func, tvm_ffi.structural_mutate(func.body, callbacks))


# What may be a vector of bools; a variable that is one is bound as words.
_BOOLS = (
    *(tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE),
    *(tirx.And, tirx.Or, tirx.Not, tirx.Broadcast, tirx.Cast, tirx.Shuffle),
    *(ir.Call, ir.TensorLoad),
)


def _comparing_variables(body: Any) -> set[int]:
    """The identities of the variables that are bound to what is computed of vectors of bools.

    A single walk, since each walk first looks up what it calls: a walk of each value took a
    quarter of the build of a sort.  It meets a statement before the expressions in it.
    """
    comparing: set[int] = set()
    variable = None  # that of the statement, where it binds one

    def statement(node: tirx.Stmt) -> None:
        nonlocal variable
        variable = hash(node.var) if isinstance(node, tirx.Bind) else None

    def expression(node: Any) -> None:
        if variable is not None and _is_vector_of_bools(node):
            comparing.add(variable)

    def let(node: tirx.Let) -> None:
        if tvm_ffi.structural_walk(node.value, (_BOOLS, interrupt)) is not None:
            comparing.add(hash(node.var))

    def interrupt(node: Any) -> tvm_ffi.VisitInterrupt | None:
        return tvm_ffi.VisitInterrupt(node) if _is_vector_of_bools(node) else None

    callbacks = [(tirx.Stmt, statement), (_BOOLS, expression), (tirx.Let, let)]
    tvm_ffi.structural_walk(body, callbacks, order="pre")
    return comparing


def _is_vector_of_bools(node: Any) -> bool:
    return str(getattr(node.ty, "dtype", "")).startswith("boolx")


def _as_words(value: Any, name: str) -> tuple[Any, Any, Any]:
    """The words of a vector, a variable for them, and the vector again of the variable."""
    dtype = DataType(str(value.ty.dtype))
    lanes = dtype.lanes
    if str(dtype).startswith("bool"):
        one, zero = (tirx.Broadcast(tirx.const(bit, "int8"), lanes) for bit in (1, 0))
        var = tirx.Var(name, f"int8x{lanes}")
        return tirx.Select(value, one, zero), var, tirx.NE(var, zero)
    word = f"uint{dtype.bits}" if str(dtype).startswith("int") else f"int{dtype.bits}"
    var = tirx.Var(name, f"{word}x{lanes}")
    words = tirx.reinterpret(f"{word}x{lanes}", value)
    return words, var, tirx.reinterpret(str(dtype), var)
