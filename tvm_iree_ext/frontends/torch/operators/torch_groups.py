"""PyTorch's products of groups of rows, as a mixture of experts has them, by our own op.

Decompositions call an operator of this file.  ``iree.turbine`` writes it as ``torch.operator``, and
here its text becomes a call of a function that the module declares and whose name says the op
(:mod:`tvm_iree_ext.mlir.dialects.declared_ops`).
"""

import re
from collections.abc import Callable
from typing import Any

import torch

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends.base.module_functions import with_functions
from tvm_iree_ext.frontends.torch.base.torch_scalars import TENSOR, builtin_type

aten = torch.ops.aten
_NAMESPACE = "tvm_iree_ext_op"
_LIBRARY = torch.library.Library(_NAMESPACE, "DEF")
_LIBRARY.define("grouped_matmul(Tensor rows, Tensor matrices, Tensor ends) -> Tensor")
_LIBRARY.impl(
    "grouped_matmul",
    lambda rows, matrices, ends: rows.new_empty(rows.shape[0], matrices.shape[2]),
    "Meta",
)
_OPERATOR = re.compile(
    rf"%(?P<result>\w+) = torch\.operator \"torch\.{_NAMESPACE}\.grouped_matmul\""
    r"\((?P<operands>[^)]*)\) : \((?P<types>[^)]*)\) -> (?P<type>!torch\.vtensor<\S*>)"
    r"(?P<place> loc\(.*\))?"
)


def grouped_matmul(rows: Any, matrices: Any, ends: Any) -> Any:
    """Each group of rows with its matrix: (rows, k), (groups, k, n), (groups,) to (rows, n).

    ``ends`` are the rows before which groups end, int32 or int64; rows behind all are 0.
    """
    return getattr(torch.ops, _NAMESPACE).grouped_matmul(rows, matrices, ends)


def grouped_mm(a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """``torch._grouped_mm`` in all its forms: groups of rows, of columns, of what is summed over.

    Raises:
        MlirError: with a bias, of which PyTorch says nothing.
    """
    if bias is not None:
        raise MlirError("grouped_mm: a bias is not supported; add it behind")
    if a.dim() == 3 and b.dim() == 3:
        found = torch.bmm(a, b)
    elif a.dim() == 2 and b.dim() == 3:
        found = grouped_matmul(a, b, offs)
    elif a.dim() == 3:
        found = (torch.matmul(a, b) * _members(offs, b.shape[1], a.dtype).unsqueeze(1)).sum(0)
    else:
        of_group = _members(offs, a.shape[1], a.dtype).unsqueeze(1)
        found = torch.matmul(a.unsqueeze(0) * of_group, b.unsqueeze(0).expand(len(offs), *b.shape))
    return found if out_dtype is None else found.to(out_dtype)


def _members(ends: Any, extent: Any, kind: torch.dtype) -> Any:
    """Which places are of which group, as 1 and 0: (groups, extent)."""
    places = torch.arange(extent)
    ends = ends.long()
    begins = torch.cat((torch.zeros(1, dtype=torch.int64), ends[:-1]))
    return ((places >= begins.unsqueeze(1)) & (places < ends.unsqueeze(1))).to(kind)


GROUPS: dict[Any, Callable[..., Any]] = {aten._grouped_mm.default: grouped_mm}
FOREIGN: dict[str, Callable[..., Any]] = {
    "transformers.grouped_mm_fallback.default": lambda input, weight, offs: grouped_matmul(
        input, weight, offs
    )
}
"""The same of operators of other packages, by name."""


def is_declared(target: Any) -> bool:
    """Whether the target of a graph's node is an operator of this file."""
    return getattr(target, "namespace", None) == _NAMESPACE


def as_calls(text: str) -> str:
    """The text of a module of the torch dialect with calls for such operators."""
    declared: dict[str, str] = {}

    def call(found: re.Match[str]) -> str:
        result, place = found["result"], found["place"] or ""
        kinds = found["types"].split(", ")
        given = [builtin_type(one)[2] for one in TENSOR.finditer(found["types"])]
        of_result = TENSOR.match(found["type"])
        assert of_result is not None
        kind = builtin_type(of_result)[2]
        signature = f"({', '.join(given)}) -> {kind}"
        name = declared.setdefault(signature, f"tvm_iree_ext.grouped_matmul.{len(declared)}")
        names = [f"%given{number}_{result}" for number in range(len(given))]
        lines = [
            f"{name} = torch_c.to_builtin_tensor {operand} : {came} -> {one}{place}"
            for name, operand, came, one in zip(
                names, found["operands"].split(", "), kinds, given, strict=True
            )
        ]
        return "\n".join(
            [
                *lines,
                f"%called_{result} = func.call @{name}({', '.join(names)}) : {signature}{place}",
                f"%{result} = torch_c.from_builtin_tensor %called_{result} : {kind}"
                f" -> {found['type']}{place}",
            ]
        )

    text = _OPERATOR.sub(call, text)
    functions = (
        f"func.func private @{name}{signature} attributes {{nosideeffects}}"
        for signature, name in declared.items()
    )
    return with_functions(text, functions) if declared else text
