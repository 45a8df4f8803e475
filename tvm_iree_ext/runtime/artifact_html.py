"""What a notebook shows of a kernel, of a program and of a profile: small tables, as HTML.

They say what the manifest says: nothing is loaded or run for them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tvm_iree_ext.base.html_parts import (
    Html,
    bar,
    code,
    escaped,
    facts,
    folded,
    joined,
    table,
    titled,
)
from tvm_iree_ext.base.lowering_config import changed_fields
from tvm_iree_ext.base.signature import Operand, shape_text
from tvm_iree_ext.runtime.manifest import Manifest, ProgramKernel, ProgramManifest

_TARGET = ("kind", "arch", "mcpu", "mtriple")  # of its fields those that tell it apart
_LONG = 60  # characters of a fact, from which on it is folded
_MOST_SOURCES = 4  # operations of a kernel that are seen at once


def kernel_html(manifest: Manifest) -> Html:
    """Op, operands, results, target, config, provenance and resources of a kernel."""
    arguments = manifest.signature.arguments
    return joined(
        (
            titled(manifest.op, f"for {target_text(manifest.target)}"),
            facts(
                [
                    *((one.name, _operand_html(one)) for one in arguments),
                    *((one.name, _operand_html(one)) for one in manifest.signature.results),
                    ("attributes", values_html(manifest.attributes)),
                    ("config", values_html(changed_fields(manifest.config))),
                    ("config from", manifest.provenance),
                    ("resources", values_html(manifest.resources)),
                ]
            ),
        )
    )


def program_html(manifest: ProgramManifest) -> Html:
    """Functions with their types, and the kernels with what each computes, of a program."""
    functions = [
        (
            code(function.name),
            _types_html(function.signature.arguments),
            _types_html(function.signature.results),
        )
        for function in manifest.functions
    ]
    origins = manifest.resources.get("provenance", {})
    kernels = [
        (
            code(kernel.name),
            kernel.computes,
            sources_html(kernel),
            origins.get(kernel.name, "") if isinstance(origins, dict) else "",
            "" if kernel.flops is None else f"{kernel.flops / 1e6:,.2f}",
        )
        for kernel in manifest.kernels
    ]
    count = len(kernels)
    shown = {k: v for k, v in manifest.resources.items() if k not in ("provenance", "kernels")}
    parts = [
        titled(manifest.name or "program", f"for {target_text(manifest.target)}"),
        table(("function", "takes", "gives"), functions, left=(0, 1, 2)),
    ]
    if kernels:
        header = ("kernel", "computes", "operations", "config from", "MFLOP")
        parts += [
            titled(f"{count} kernel{'s' if count > 1 else ''}"),
            table(header, kernels, left=(0, 1, 2, 3)),
        ]
    return joined((*parts, folded("resources", values_html(shown))))


def profile_html(title: str, rows: Iterable[tuple[ProgramKernel, int, float, float, Any]]) -> Html:
    """The kernels of a profile, the share of each as a bar.

    Args:
        title: of the call.
        rows: of each kernel: what it is, its calls, seconds, share of the call, and GFLOP/s, or
            None where no operations are counted.
    """
    body = [
        (
            code(kernel.name),
            bar(share, f"{share:.1%}"),
            f"{seconds * 1e6:.1f}",
            calls,
            "" if gflops is None else f"{gflops:.1f}",
            kernel.computes,
            sources_html(kernel),
        )
        for kernel, calls, seconds, share, gflops in rows
    ]
    header = ("kernel", "share", "us", "calls", "GFLOP/s", "computes", "operations")
    return joined((titled(title), table(header, body, left=(0, 1, 5, 6))))


def sources_html(kernel: ProgramKernel) -> Html:
    """The operations that a kernel came of, many of them folded."""
    first, more = kernel.sources[:_MOST_SOURCES], kernel.sources[_MOST_SOURCES:]
    lines = joined(first, Html("<br/>"))
    return (
        joined((lines, folded(f"{len(more)} more", joined(more, Html("<br/>"))))) if more else lines
    )


def _operand_html(operand: Operand) -> Html:
    notes: list[str] = [operand.role] if operand.role not in ("input", "result") else []
    if operand.in_place_of:
        notes.append(f"in place of {operand.in_place_of}")
    if operand.default is not None:
        notes.append(f"default {operand.default}")
    remark = f" ({', '.join(notes)})" if notes else ""
    way = "→ " if operand.role == "result" else ""
    return joined((way, code(f"{operand.dtype}{shape_text(operand.shape)}"), remark))


def _types_html(operands: Iterable[Operand]) -> Html:
    return joined((code(one) for one in operands), Html("<br/>"))


def values_html(values: Mapping[str, Any]) -> Html:
    """A line for each value of a JSON object, with its name; long ones are folded."""
    return joined(_line_html(name, _value_text(value)) for name, value in values.items())


def _line_html(name: str, text: str) -> Html:
    if len(text) > _LONG:
        return folded(f"{name} {text[: _LONG - 20]}...", code(text))
    return Html(f"<div>{escaped(name)} {code(text)}</div>")


def _value_text(value: Any) -> str:
    match value:
        case dict():
            return ", ".join(f"{name}={_value_text(one)}" for name, one in value.items())
        case list() | tuple():
            return f"[{', '.join(map(_value_text, value))}]"
        case bool():
            return "yes" if value else "no"
        case int() if value >= 10000:
            return f"{value:,}"
    return str(value)


def target_text(target: Mapping[str, Any]) -> str:
    """A target, as JSON, in a few words: ``llvm x86-64-v4, 2 cores``."""
    named = [str(target[name]) for name in _TARGET if name in target]
    cores = target.get("num-cores")
    return " ".join(named) + (f", {cores} core{'s' if cores != 1 else ''}" if cores else "")
