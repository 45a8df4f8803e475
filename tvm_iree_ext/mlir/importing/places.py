"""Where in a text the calls of kernels come from: each call carries it as its span.

Passes keep spans, and equality leaves them out, so that equal kernels stay one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import ir, relax

from tvm_iree_ext.mlir.reading import form


@dataclass(frozen=True)
class Place:
    """An operation of a program, and where it stands: ``12:5``, or ``model.py:12:5``."""

    operation: str
    at: str = ""  # empty where that is not known

    def __str__(self) -> str:
        return f"{self.operation} at {self.at}" if self.at else self.operation


def place_of(op: form.ParsedOperation) -> Place:
    """The place of an operation."""
    return Place(op.name, str(op.location) if op.location.line else "")


def placed(call: ir.Call, op: form.ParsedOperation | None) -> ir.Call:
    """A call that is emitted for an operation, with its place; as it is where there is none."""
    if op is None:
        return call
    at = op.location
    # A span has one text, for both names.
    source = ir.SourceName(f"{op.name} {at.file}")
    return _with_span(call, ir.Span(source, at.line, at.line, at.column, at.column))


def joined(call: ir.Call, *others: ir.Call) -> ir.Call:
    """A call that does what others did, with the places of all."""
    spans = [span for other in (call, *others) for span in _spans(other)]
    return _with_span(call, ir.SequentialSpan(spans)) if spans else call


def places_of(call: ir.Call) -> tuple[Place, ...]:
    """The places of the operations that a call computes, each once."""
    found: dict[Place, None] = {}
    for span in _spans(call):
        name, _, file = str(span.source_name.name).partition(" ")
        line = form.Location(int(span.line), int(span.column), file)
        found[Place(name, str(line) if line.line else "")] = None
    return tuple(found)


def _spans(call: ir.Call) -> Iterator[Any]:
    span = getattr(call, "span", None)
    if isinstance(span, ir.SequentialSpan):
        yield from span.spans
    elif span is not None and span.source_name.name:
        yield span


def _with_span(call: ir.Call, span: Any) -> ir.Call:
    return relax.Call(call.op, call.args, call.attrs, call.ty_args, span)
