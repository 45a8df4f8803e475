"""StableHLO with operations of ``complex`` for quotients, absolute values and exponentials.

IREE's front end expands those of StableHLO to real arithmetic, which overflows where the parts'
squares do.
"""

import re

_OPERATION = re.compile(
    r"(?P<result>%\w+) = stablehlo\.(?P<name>abs|divide|exponential)"
    r" (?P<operands>%[\w#]+(?:, %[\w#]+)?)"
    r" : \(?(?P<type>tensor<(?P<shape>(?:[\d?]+x)+)complex<(?P<part>f32|f64)>>)\)?(?: -> \S+)?"
)
_NAMES = {"abs": "abs", "divide": "div", "exponential": "exp"}


def complex_operations(text: str) -> str:
    """The text of a module that means the same.

    Numbers of rank 0 stay as they are: the body of a reduction takes nothing but StableHLO.
    """
    return _OPERATION.sub(_generic, text)


def _generic(found: re.Match[str]) -> str:
    result, shape, part = found["result"], found["shape"], found["part"]
    operands = found["operands"].split(", ")
    name, kind = result[1:], f"complex<{part}>"
    of_result = part if found["name"] == "abs" else kind
    tensor = f"tensor<{shape}{of_result}>"
    extents = shape[:-1].split("x")
    lines, sizes = [], []
    for axis, extent in enumerate(extents):
        if extent == "?":
            lines.append(f"%axis{axis}_{name} = arith.constant {axis} : index")
            size = f"%size{axis}_{name}"
            lines.append(f"{size} = tensor.dim {operands[0]}, %axis{axis}_{name} : {found['type']}")
            sizes.append(size)
    dims = ", ".join(f"d{axis}" for axis in range(len(extents)))
    maps = ", ".join([f"affine_map<({dims}) -> ({dims})>"] * (len(operands) + 1))
    kinds = ", ".join(['"parallel"'] * len(extents))
    inputs = [f"%in{place}_{name}" for place in range(len(operands))]
    arguments = ", ".join(f"{one}: {kind}" for one in inputs)
    types = ", ".join([found["type"]] * len(operands))
    lines += [
        f"%empty_{name} = tensor.empty({', '.join(sizes)}) : {tensor}",
        f"{result} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}"
        f" ins({', '.join(operands)} : {types}) outs(%empty_{name} : {tensor}) {{",
        f"^bb0({arguments}, %out_{name}: {of_result}):",
        f"  %value_{name} = complex.{_NAMES[found['name']]} {', '.join(inputs)} : {kind}",
        f"  linalg.yield %value_{name} : {of_result}",
        f"}} -> {tensor}",
    ]
    return "\n".join(lines)
