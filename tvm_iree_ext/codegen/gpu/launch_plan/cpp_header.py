"""A launch plan written out in C++: ``kernels.h``, which ``launch.cpp`` and other programs include.

namespace pack {
inline void enqueue(Gpu& gpu, Pointer source, double padding, Pointer result, Int n,
                    Stream stream = nullptr) { ... }
}
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.Eq: "==", ast.NotEq: "!=",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.And: "&&", ast.Or: "||",
    ast.Not: "!", ast.USub: "-",
}  # fmt: skip
_CALLS = {"min": "std::min<Int>", "max": "std::max<Int>", "int": "Int", "float": "double"}
_ROUNDED = {"float16": "half_bits", "bfloat16": "bfloat_bits"}
_TYPES = {"float32": "float", "float64": "double", "bool": "bool"}


def header(name: str, plan: Mapping[str, Any], kind: str, binaries: Sequence[str]) -> str:
    """The text of ``kernels.h``.

    Args:
        name: of the namespace.
        plan: see :mod:`.launch_plan`.
        kind: of the target, ``cuda`` or ``rocm``.
        binaries: the files that a driver loads, the first to be tried first.
    """
    parameters = plan["parameters"]
    rows = [
        f'    {{"{one["name"]}", "{one["dtype"]}", {_bool("shape" in one)}}},' for one in parameters
    ]
    symbols = ", ".join(f'"{symbol}"' for symbol in plan["symbols"])
    files = ", ".join(f'"{file}"' for file in binaries)
    sizes = ", ".join(_bytes(one) for one in parameters)
    known = [
        f"  [[maybe_unused]] const Int {one} = symbols[{place}];"
        for place, one in enumerate(plan["symbols"])
    ]
    lines = [
        "// Made with the kernels: what they take, and how they are launched.",
        '#include "launch.h"',
        "",
        f"#define KERNELS {name}",
        "",
        f"namespace {name} {{",
        "",
        f"static const Driver& driver = {kind}_driver;",
        f"static const std::vector<const char*> binaries = {{{files}}};",
        "static const std::vector<Parameter> parameters = {",
        *rows,
        "};",
        f"static const std::vector<const char*> symbol_names = {{{symbols}}};",
        "",
        "// Bytes of each parameter's array; 0 of a number.",
        "inline std::vector<Int> sizes([[maybe_unused]] const std::vector<Int>& symbols) {",
        *known,
        f"  return {{{sizes}}};",
        "}",
        "",
        *_enqueue(plan),
        "",
        f"}}  // namespace {name}",
    ]
    return "\n".join(lines) + "\n"


def _enqueue(plan: Mapping[str, Any]) -> list[str]:
    """C++ functions that launch the kernels, by parameters and by their places."""
    parameters = plan["parameters"]
    taken = [_parameter(one) for one in parameters] + [f"Int {one}" for one in plan["symbols"]]
    given = [
        f"arrays[{place}]" if "shape" in one else f"numbers[{place}]"
        for place, one in enumerate(parameters)
    ]
    given += [f"symbols[{place}]" for place in range(len(plan["symbols"]))]
    return [
        "// Launches the kernels on a stream and does not wait; arrays are addresses on the GPU.",
        f"inline void enqueue(Gpu& gpu, {', '.join(taken)}, Stream stream = nullptr) {{",
        *(f"  {line}" for line in _steps(plan["steps"])),
        "}",
        "",
        "// The same, by the places of parameters and symbols.",
        "inline void enqueue(Gpu& gpu, [[maybe_unused]] const std::vector<Pointer>& arrays,",
        "                    [[maybe_unused]] const std::vector<double>& numbers,",
        "                    [[maybe_unused]] const std::vector<Int>& symbols) {",
        f"  enqueue(gpu, {', '.join(given)});",
        "}",
    ]


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _parameter(one: Mapping[str, Any]) -> str:
    if "shape" in one:
        return f"Pointer {one['name']}"
    return f"{'double' if 'float' in one['dtype'] else 'Int'} {one['name']}"


def _bytes(one: Mapping[str, Any]) -> str:
    if "shape" not in one:
        return "Int(0)"
    extents = "".join(f" * {_number(extent)}" for extent in one["shape"])
    return f'byte_count("{one["dtype"]}", Int(1){extents})'


def _steps(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        if "let" in step:
            yield f"const auto {step['let']} = {_number(step['value'])};"
        elif "allocate" in step:
            yield f"const Pointer {step['allocate']} = gpu.workspace({_number(step['bytes'])});"
        elif "tensor_map" in step:
            lists = (
                "{" + ", ".join(map(_number, step[key])) + "}"
                for key in ("extents", "strides", "box", "steps")
            )
            modes = (str(step[k]) for k in ("interleave", "swizzle", "l2_promotion", "fill"))
            made = f'gpu.tensor_map("{step["dtype"]}", {step["array"]}, {", ".join(lists)}'
            yield f"const TensorMap {step['tensor_map']} = {made}, {', '.join(modes)});"
        elif "launch" in step:
            grid, block = (", ".join(map(_number, step[key])) for key in ("grid", "block"))
            values = "".join(f", {_argument(one)}" for one in step["arguments"])
            shared = _number(step["shared"])
            extents = f"{{{grid}}}, {{{block}}}, {shared}"
            yield f'gpu.launch("{step["launch"]}", {extents}, stream{values});'
        elif "if" in step:
            yield f"if ({_number(step['if'])}) {{"
            yield from (f"  {line}" for line in _steps(step["then"]))
            yield "} else {"
            yield from (f"  {line}" for line in _steps(step["else"]))
            yield "}"
        else:
            name, start = step["for"], _number(step["from"])
            end = f"({start}) + ({_number(step['count'])})"
            yield f"for (Int {name} = {start}; {name} < {end}; ++{name}) {{"
            yield from (f"  {line}" for line in _steps(step["steps"]))
            yield "}"


def _argument(one: Mapping[str, Any]) -> str:
    if "value" not in one:
        return str(one.get("array", one.get("tensor_map")))
    dtype, value = one["dtype"], _number(one["value"])
    if dtype in _ROUNDED:
        return f"{_ROUNDED[dtype]}({value})"
    return f"static_cast<{_TYPES.get(dtype, f'std::{dtype}_t')}>({value})"


def _number(value: int | str) -> str:
    if isinstance(value, str):
        return _expression(ast.parse(value, mode="eval").body)
    return str(value)


def _expression(node: ast.expr) -> str:
    match node:
        case ast.Constant(value):
            return repr(value)
        case ast.Name(name):
            return name
        case ast.BinOp(a, ast.FloorDiv(), b):
            return f"floordiv({_expression(a)}, {_expression(b)})"
        case ast.BinOp(a, ast.Mod(), b):
            return f"floormod({_expression(a)}, {_expression(b)})"
        case ast.BinOp(a, operator, b) | ast.Compare(a, [operator], [b]):
            return f"({_expression(a)} {_SYMBOLS[type(operator)]} {_expression(b)})"
        case ast.BoolOp(operator, values):
            return "(" + f" {_SYMBOLS[type(operator)]} ".join(map(_expression, values)) + ")"
        case ast.UnaryOp(operator, operand):
            return f"({_SYMBOLS[type(operator)]}{_expression(operand)})"
        case ast.IfExp(condition, yes, no):
            return f"({_expression(condition)} ? {_expression(yes)} : {_expression(no)})"
        case ast.Call(ast.Name(name), arguments):
            return f"{_CALLS[name]}({', '.join(map(_expression, arguments))})"
    raise ValueError(f"a launch plan has no {ast.unparse(node)}")
