"""Buffers of any rank become flat, and their indices one offset."""

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.sym import Analyzer

from tvm_iree_ext.tir.function_body import with_body


@ir.transform.module_pass(opt_level=0)
def flatten_buffers(mod: ir.IRModule, _ctx: ir.transform.PassContext) -> ir.IRModule:
    """TVM's ``FlattenBuffer``, with offsets that are simplified by the rules of arithmetic alone.

    TVM rewrites them as sums of iterators, and is wrong where an iterator that does not begin at 0
    is divided: ``(1 - v) % 2`` becomes ``v % -2 * -1``, and ``(v + 97) // 17`` is 5 for all of 17.
    It leaves offsets as they are where the extent of a loop depends on another loop.  So each body
    stands in two such loops of one step meanwhile.

    It also asks which integers a float may be that is bound in an expression, and fails at a loop's
    variable as a float.  So such values are what nothing is known of meanwhile.
    """
    loops: set[int] = set()
    functions = {var: _in_loops(_hidden(func), loops) for var, func in mod.functions.items()}
    mod = tirx.transform.FlattenBuffer()(ir.IRModule(functions, attrs=mod.attrs))

    def out_of_loops(node: tirx.For) -> Any:
        return node.body if hash(node.loop_var) in loops else node

    functions = {
        var: _simplified(
            with_body(func, tvm_ffi.structural_map(func.body, [(tirx.For, out_of_loops), *_SHOWN]))
        )
        if isinstance(func, tirx.PrimFunc)
        else func
        for var, func in mod.functions.items()
    }
    return ir.IRModule(functions, attrs=mod.attrs)


def _hide(node: tirx.Let) -> Any:
    dtype = str(node.var.ty.dtype)
    if dtype not in _BITS:
        return node
    value = tirx.reinterpret(dtype, tirx.reinterpret(_BITS[dtype], node.value))
    return tirx.Let(node.var, value, node.body)


def _show(node: tirx.Let) -> Any:
    if str(node.var.ty.dtype) not in _BITS:
        return node
    return tirx.Let(node.var, node.value.args[0].args[0], node.body)


_BITS = {"float16": "uint16", "float32": "uint32", "float64": "uint64"}
_SHOWN = [(tirx.Let, _show)]


def _hidden(func: Any) -> Any:
    """The function whose floats that are bound are looked at as their bits."""
    if not isinstance(func, tirx.PrimFunc):
        return func
    return with_body(func, tvm_ffi.structural_map(func.body, [(tirx.Let, _hide)]))


def _in_loops(func: Any, loops: set[int]) -> Any:
    """The function's body in two loops of one step, the inner one's extent of the outer one's."""
    if not isinstance(func, tirx.PrimFunc):
        return func
    outer, inner = tirx.Var("outer", "int32"), tirx.Var("inner", "int32")
    loops.update((hash(outer), hash(inner)))
    zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
    body = tirx.For(inner, zero, outer + one, tirx.ForKind.SERIAL, func.body)
    return func.with_body(tirx.For(outer, zero, one, tirx.ForKind.SERIAL, body))


def _simplified(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with offsets simplified by what its loops and threads are."""
    analyzer = Analyzer()

    def loop(node: tirx.For) -> None:
        analyzer.bind(node.loop_var, ir.Range.from_min_extent(node.min, node.extent))

    def thread(node: tirx.AttrStmt) -> None:
        if node.attr_key == "thread_extent":
            zero = tirx.const(0, str(node.value.ty.dtype))
            analyzer.bind(node.node.var, ir.Range.from_min_extent(zero, node.value))

    def load(node: Any) -> Any:
        return tirx.BufferLoad(node.source, [analyzer.simplify(index) for index in node.indices])

    def store(node: tirx.BufferStore) -> Any:
        indices = [analyzer.simplify(index) for index in node.indices]
        return tirx.BufferStore(node.buffer, node.value, indices)

    tvm_ffi.structural_walk(func.body, [(tirx.For, loop), (tirx.AttrStmt, thread)])
    return with_body(
        func, tvm_ffi.structural_map(func.body, [(ir.TensorLoad, load), (tirx.BufferStore, store)])
    )
