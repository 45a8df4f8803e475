"""Kernels in which a call is changed or left out."""

import tvm_ffi
from tvm import ir, tirx

NOTHING = tirx.Evaluate(tirx.const(0, "int32"))


def name_of(node):
    return getattr(getattr(node, "op", None), "name", "").removeprefix("tirx.")


def changed(kernel, name, change, which=None):
    """Kernels with one call of a name changed: each, or the ``which``-th."""
    total = [0]

    def count(node):
        total[0] += name_of(node.value) == name

    tvm_ffi.structural_walk(kernel.body, (tirx.Evaluate, count))
    assert total[0], name
    for number in range(total[0]) if which is None else [which]:
        seen = [-1]

        def apply(node, seen=seen, number=number):
            if name_of(node.value) != name:
                return node
            seen[0] += 1
            return change(node) if seen[0] == number else node

        yield kernel.with_body(tvm_ffi.structural_map(kernel.body, (tirx.Evaluate, apply)))


def argument(at, new):
    """Put ``new(old)`` for an argument of a call."""

    def change(node):
        call = node.value
        args = [new(arg) if number == at else arg for number, arg in enumerate(call.args)]
        return tirx.Evaluate(ir.Call(call.op, args, attrs=call.attrs, ret_ty=call.ty))

    return change


def without(node):
    return NOTHING
