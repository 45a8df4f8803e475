"""Operations on scalars of MLIR's dialects, such as ``complex.exp``, as operators of PyTorch.

Decompositions call them for each element of tensors.  ``iree.turbine`` writes such an operator as
``torch.operator``, and here its text becomes a ``linalg.generic`` before IREE's front end reads it.
"""

import re
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_bits import of_one_shape

_NAMESPACE = "tvm_iree_ext_scalar"
_LIBRARY = torch.library.Library(_NAMESPACE, "DEF")
_WRITTEN = f'torch.operator "torch.{_NAMESPACE}.'
TENSOR = re.compile(r"!torch\.vtensor<\[([\d,?]*)\],(complex<\w+>|\w+)>")
_OPERATOR = re.compile(
    rf"%(?P<result>\w+) = {re.escape(_WRITTEN)}(?P<dialect>[a-z]+)_(?P<name>\w+)__\w+\""
    r"\((?P<operands>[^)]*)\) : \((?P<types>[^)]*)\) -> (?P<type>!torch\.vtensor<\S*>)"
    r"(?P<place> loc\(.*\))?"
)


def elementwise(operation: str, *operands: Any, dtype: torch.dtype | None = None) -> Any:
    """An operation of each element of tensors, which are broadcast.

    Args:
        operation: as MLIR calls it; it takes scalars of one type and gives one.
        operands: of a type that it takes.
        dtype: of the result; by default that of the operands.
    """
    operands = tuple(of_one_shape(*operands))
    dtype = dtype or operands[0].dtype
    name = f"{operation.replace('.', '_')}__{str(dtype).removeprefix('torch.')}_{len(operands)}"
    packet = getattr(torch.ops, _NAMESPACE)
    if not hasattr(packet, name):
        _define(name, len(operands), dtype)
    return getattr(packet, name)(*operands)


def _define(name: str, count: int, dtype: torch.dtype) -> None:
    arguments = ", ".join(f"Tensor x{place}" for place in range(count))
    _LIBRARY.define(f"{name}({arguments}) -> Tensor")
    _LIBRARY.impl(name, lambda x, *_: torch.empty_like(x, dtype=dtype), "Meta")


def is_scalar(target: Any) -> bool:
    """Whether the target of a graph's node is such an operator."""
    return getattr(target, "namespace", None) == _NAMESPACE


def as_linalg(text: str) -> str:
    """The text of a module of the torch dialect with ``linalg.generic`` for such operators."""
    return _OPERATOR.sub(_generic, text)


def _generic(found: re.Match[str]) -> str:
    result, place = found["result"], found["place"] or ""
    given = [builtin_type(one) for one in TENSOR.finditer(found["types"])]
    of_result = TENSOR.match(found["type"])
    assert of_result is not None
    extents, element, tensor = builtin_type(of_result)
    lines, sizes = [], []
    for number, operand in enumerate(found["operands"].split(", ")):
        lines.append(
            f"%given{number}_{result} = torch_c.to_builtin_tensor {operand} :"
            f" {found['types'].split(', ')[number]} -> {given[number][2]}{place}"
        )
    for axis, extent in enumerate(extents):
        if extent == "?":
            sizes.append(f"%size{axis}_{result}")
            lines += [
                f"%axis{axis}_{result} = arith.constant {axis} : index{place}",
                f"{sizes[-1]} = tensor.dim %given0_{result}, %axis{axis}_{result}"
                f" : {given[0][2]}{place}",
            ]
    dims = ", ".join(f"d{axis}" for axis in range(len(extents)))
    maps = ", ".join([f"affine_map<({dims}) -> ({dims})>"] * (len(given) + 1))
    kinds = ", ".join(['"parallel"'] * len(extents))
    inputs = ", ".join(f"%given{number}_{result}" for number in range(len(given)))
    scalars = [f"%in{number}_{result}" for number in range(len(given))]
    typed = ", ".join(f"{one}: {kind[1]}" for one, kind in zip(scalars, given, strict=True))
    types = ", ".join(kind[2] for kind in given)
    # Operations from complex numbers to their parts are printed with the operand's type alone.
    lines += [
        f"%empty_{result} = tensor.empty({', '.join(sizes)}) : {tensor}{place}",
        f"%computed_{result} = linalg.generic {{indexing_maps = [{maps}],"
        f" iterator_types = [{kinds}]}} ins({inputs} : {types})"
        f" outs(%empty_{result} : {tensor}) {{",
        f"^bb0({typed}, %out_{result}: {element}):",
        f"  %value_{result} = {found['dialect']}.{found['name']} {', '.join(scalars)}"
        f" : {given[0][1]}{place}",
        f"  linalg.yield %value_{result} : {element}{place}",
        f"}} -> {tensor}{place}",
        f"%{result} = torch_c.from_builtin_tensor %computed_{result} : {tensor}"
        f" -> {found['type']}{place}",
    ]
    return "\n".join(lines)


def builtin_type(found: re.Match[str]) -> tuple[list[str], str, str]:
    """Extents and element of a tensor type of the torch dialect, and MLIR's own type for it."""
    extents = found[1].split(",") if found[1] else []
    element = re.sub(r"^[su]i", "i", found[2])
    return extents, element, f"tensor<{''.join(f'{one}x' for one in extents)}{element}>"
