"""JAX's ``approx_max_k`` and ``approx_min_k`` as exact ones, along the last axis.

IREE's front end takes those along the last axis alone, and negates the values of the smallest.
"""

import re

from tvm_iree_ext.frontends.base.module_functions import with_functions

_CALL = re.compile(
    r"(?P<result>%\w+):2 = stablehlo\.custom_call @ApproxTopK\((?P<given>%[\w#]+)(?:, %[\w#]+){3}\)"
    r" \{[^\n]*@top_k_(?P<order>gt|lt)_[^\n]*\breduction_dim = (?P<axis>\d+) : i64"
    r"[^\n]*\btop_k = (?P<count>\d+) : i64[^\n]*\}"
    r" : \(tensor<(?P<shape>[\dx]+x)(?P<kind>\w+)>, [^\n]*\) -> \(tensor<(?P<kept>[\dx]+x)\w+>,"
    r" tensor<[\dx]+xi32>\)"
)


def exact_extremes(text: str) -> str:
    """The text of a module that means the same, but for nearly so."""
    functions: list[str] = []

    def called(found: re.Match[str]) -> str:
        axis, kept = int(found["axis"]), _extents(found["kept"])
        if kept[axis] != int(found["count"]):  # all that parts of the axis have for largest
            return found[0]
        name = f"extremes_{len(functions)}"
        functions.append(_function(name, found))
        given, values, places = (
            _tensor(one, kind)
            for one, kind in (
                (_extents(found["shape"]), found["kind"]),
                (kept, found["kind"]),
                (kept, "i32"),
            )
        )
        call = f"func.call @{name}({found['given']}) : ({given}) -> ({values}, {places})"
        return f"{found['result']}:2 = {call}"

    return with_functions(_CALL.sub(called, text), functions)


def _function(name: str, found: re.Match[str]) -> str:
    kind, is_smallest = found["kind"], found["order"] == "lt"
    shape, kept = _extents(found["shape"]), _extents(found["kept"])
    order = [axis for axis in range(len(shape)) if axis != int(found["axis"])]
    order.append(int(found["axis"]))
    back = [order.index(axis) for axis in range(len(shape))]
    last, few = ([one[axis] for axis in order] for one in (shape, kept))

    def turned(result: str, of: str, axes: list[int], came: list[int], kind: str) -> str:
        to = [came[axis] for axis in axes]
        return (
            f"{result} = stablehlo.transpose {of}, dims = {axes}"
            f" : ({_tensor(came, kind)}) -> {_tensor(to, kind)}"
        )

    def signed(result: str, of: str, shape: list[int]) -> str:
        form = (
            f"stablehlo.negate {of} : {{0}}"
            if is_smallest
            else f"stablehlo.reshape {of} : ({{0}}) -> {{0}}"
        )
        return f"{result} = {form.format(_tensor(shape, kind))}"

    return "\n".join(
        [
            f"func.func private @{name}(%x: {_tensor(shape, kind)})"
            f" -> ({_tensor(kept, kind)}, {_tensor(kept, 'i32')}) {{",
            turned("%turned", "%x", order, shape, kind),
            signed("%given", "%turned", last),
            f"%largest, %found = chlo.top_k(%given, k = {found['count']}) : {_tensor(last, kind)}"
            f" -> ({_tensor(few, kind)}, {_tensor(few, 'i32')})",
            signed("%values", "%largest", few),
            turned("%0", "%values", back, few, kind),
            turned("%1", "%found", back, few, "i32"),
            f"return %0, %1 : {_tensor(kept, kind)}, {_tensor(kept, 'i32')}",
            "}",
        ]
    )


def _extents(shape: str) -> list[int]:
    return [int(one) for one in shape[:-1].split("x")]


def _tensor(shape: list[int], kind: str) -> str:
    return f"tensor<{''.join(f'{one}x' for one in shape)}{kind}>"
