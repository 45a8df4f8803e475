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
_ANGLE = re.compile(
    r"(%\w+) = stablehlo\.atan2 (%[\w#]+), (%[\w#]+) : (tensor<(?:\d+x)*complex<f(?:32|64)>>)"
)
_NAMES = {"abs": "abs", "divide": "div", "exponential": "exp"}


def complex_operations(text: str) -> str:
    """The text of a module that means the same.

    Numbers of rank 0 stay as they are: the body of a reduction takes nothing but StableHLO.
    """
    return _OPERATION.sub(_generic, _ANGLE.sub(_angle, text))


def _angle(found: re.Match[str]) -> str:
    """``atan2(y, x)`` as XLA has it: ``-i log((x + i y) / sqrt(x x + y y))``."""
    result, y, x, kind = found.groups()
    name = result[1:]
    return "\n".join(
        [
            f"%i_{name} = stablehlo.constant dense<(0.0, 1.0)> : {kind}",
            f"%iy_{name} = stablehlo.multiply %i_{name}, {y} : {kind}",
            f"%sum_{name} = stablehlo.add {x}, %iy_{name} : {kind}",
            f"%xx_{name} = stablehlo.multiply {x}, {x} : {kind}",
            f"%yy_{name} = stablehlo.multiply {y}, {y} : {kind}",
            f"%square_{name} = stablehlo.add %xx_{name}, %yy_{name} : {kind}",
            f"%root_{name} = stablehlo.sqrt %square_{name} : {kind}",
            f"%unit_{name} = stablehlo.divide %sum_{name}, %root_{name} : {kind}",
            f"%log_{name} = stablehlo.log %unit_{name} : {kind}",
            f"%back_{name} = stablehlo.constant dense<(0.0, -1.0)> : {kind}",
            f"{result} = stablehlo.multiply %back_{name}, %log_{name} : {kind}",
        ]
    )


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
