"""Nests of loops over arrays as text: linalg.generic, and what stands around it."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm_iree_ext.random_programs.doors.arith import Scalars
from tvm_iree_ext.random_programs.doors.mlir_text import MlirLines
from tvm_iree_ext.random_programs.drawing.web import Type


def list_text(values: Sequence[object]) -> str:
    """Values as MLIR lists them."""
    return f"[{', '.join(map(str, values))}]"


def empty(lines: MlirLines, type: Type) -> str:
    """A tensor that nothing is in."""
    return lines.value(f"tensor.empty() : {lines.type(type)}")


def filled(lines: MlirLines, type: Type, value: Any) -> str:
    """A tensor of one number."""
    number = Scalars(lines, type.dtype).number(value)
    kinds = lines.element(type.dtype), lines.type(type)
    into = empty(lines, type)
    return lines.value(
        f"linalg.fill ins({number} : {kinds[0]}) outs({into} : {kinds[1]}) -> {kinds[1]}"
    )


def map_text(rank: int, places: Sequence[object]) -> str:
    """An affine map of so many dims."""
    dims = ", ".join(f"d{d}" for d in range(rank))
    return f"affine_map<({dims}) -> ({', '.join(map(str, places))})>"


def all_dims(rank: int) -> list[str]:
    """The dims in their order."""
    return [f"d{d}" for d in range(rank)]


def generic(
    lines: MlirLines,
    inputs: Sequence[tuple[str, Type, Sequence[object]]],
    outputs: Sequence[tuple[str, Type, Sequence[object]]],
    iterators: Sequence[bool],
    body: Callable[[list[str]], list[str]],
) -> list[str]:
    """A ``linalg.generic``: operands with their places, and which dims are reduced."""
    found, rank = lines.name(), len(iterators)
    count = f":{len(outputs)}" if len(outputs) > 1 else ""
    maps = ", ".join(map_text(rank, places) for _, _, places in (*inputs, *outputs))
    kinds = ", ".join(f'"{"reduction" if one else "parallel"}"' for one in iterators)

    def operands(some: Sequence[tuple[str, Type, Sequence[object]]]) -> str:
        names = ", ".join(name for name, _, _ in some)
        return f"{names} : {', '.join(lines.type(type) for _, type, _ in some)}"

    inside = [lines.name() for _ in (*inputs, *outputs)]
    elements = [lines.element(type.dtype) for _, type, _ in (*inputs, *outputs)]
    head = ", ".join(f"{n}: {e}" for n, e in zip(inside, elements, strict=True))

    def write() -> None:
        lines.line(f"^bb0({head}):")
        given = body(inside)
        lines.line(f"linalg.yield {', '.join(given)} : {', '.join(elements[len(inputs) :])}")

    ins = f" ins({operands(inputs)})" if inputs else ""
    results = ", ".join(lines.type(type) for _, type, _ in outputs)
    lines.block(
        f"{found}{count} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}"
        f"{ins} outs({operands(outputs)}) {{",
        write,
        f"}} -> {f'({results})' if count else results}",
    )
    return [f"{found}#{n}" for n in range(len(outputs))] if count else [found]


def each(
    lines: MlirLines,
    names: Sequence[str],
    types: Sequence[Type],
    result: Type,
    body: Callable[[list[str]], str],
    places: Sequence[Sequence[object]] | None = None,
) -> str:
    """A result element by element, of operands at these places."""
    same = all_dims(result.rank)
    at = places if places is not None else [same] * len(names)
    inputs = list(zip(names, types, at, strict=True))
    output = (empty(lines, result), result, same)
    return generic(lines, inputs, [output], [False] * result.rank, lambda ins: [body(ins)])[0]


def index_of(lines: MlirLines, dim: int) -> str:
    """The place along a dim, as i32."""
    at = lines.value(f"linalg.index {dim} : index")
    return lines.value(f"arith.index_cast {at} : index to i32")
