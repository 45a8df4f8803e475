"""StableHLO's Fourier transforms as calls of an op of ours, which takes every length.

    %0 = stablehlo.fft %x, type = RFFT, length = [4, 6] : (tensor<4x6xf32>) -> ...

is one call for each axis, of a function that the module declares and whose name says the op
(:mod:`tvm_iree_ext.mlir.dialects.declared_ops`).  IREE's front end takes real numbers alone, and
powers of two.
"""

import re
from collections.abc import Iterator

from tvm_iree_ext.frontends.base.module_functions import with_functions

_TENSOR = r"tensor<(?:[\d?]+x)+(?:f\d+|complex<f\d+>)>"
_TRANSFORM = re.compile(
    r"(?P<result>%\w+) = (?:stablehlo\.fft (?P<given>%[\w#]+), type = +(?P<kind>\w+),"
    r" length = \[(?P<lengths>[\d, ]+)\]"
    r'|"stablehlo\.fft"\((?P<operand>%[\w#]+)\)\s*<?\{(?P<settings>[^\n]*?)\}>?)'
    rf"\s*: \((?P<type>{_TENSOR})\) -> (?P<of_result>{_TENSOR})"
)
_KIND = re.compile(r"fft_type (\w+)")
_LENGTHS = re.compile(r"fft_length = array<i64: ([\d, ]+)>")


def declared_transforms(text: str) -> str:
    """The text of a module that means the same."""
    declared: dict[tuple[str, str, str], str] = {}

    def calls(found: re.Match[str]) -> str:
        lines = []
        result, given = found["result"], found["given"] or found["operand"]
        for place, step in enumerate(steps := list(_steps(found))):
            name = declared.setdefault(step, f"{step[0]}.{len(declared)}")
            to = result if place == len(steps) - 1 else f"%along{place}_{result[1:]}"
            lines.append(f"{to} = func.call @{name}({given}) : ({step[1]}) -> {step[2]}")
            given = to
        return "\n".join(lines) or found[0]

    text = _TRANSFORM.sub(calls, text)
    return with_functions(
        text,
        (
            f"func.func private @{name}({kind}) -> {of_result} attributes {{nosideeffects}}"
            for (_, kind, of_result), name in declared.items()
        ),
    )


def _steps(found: re.Match[str]) -> Iterator[tuple[str, str, str]]:
    """The op along one axis after another, and the types of its operand and its result.

    None for what is not written as StableHLO writes it.
    """
    name, lengths = found["kind"], found["lengths"]
    if name is None:
        said = [pattern.search(found["settings"]) for pattern in (_KIND, _LENGTHS)]
        if not all(said):
            return
        name, lengths = (one[1] for one in said if one)
    kind, of_result = found["type"], found["of_result"]
    sizes = [int(one) for one in lengths.split(",")]
    rank = len(re.findall(r"[\d?]+x", kind))
    *others, last = zip(range(rank - len(sizes), rank), sizes, strict=True)
    direction = "inverse" if name.startswith("I") else "forward"
    if name == "RFFT":
        yield _named("real_to_complex", *last), kind, of_result
        kind = of_result
    for axis, size in others:
        yield _named(direction, axis, size), kind, kind
    if name == "IRFFT":
        yield _named("complex_to_real", *last), kind, of_result
    elif name != "RFFT":
        yield _named(direction, *last), kind, of_result


def _named(kind: str, axis: int, length: int) -> str:
    return f"tvm_iree_ext.fft_transform.{kind}.axis{axis}.length{length}"
