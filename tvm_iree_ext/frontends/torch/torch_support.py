"""Which operators of an exported PyTorch program are taken, and which are refused."""

from __future__ import annotations

import operator
import os
import re
import textwrap
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm_iree_ext.base.errors import ExtError, MlirError
from tvm_iree_ext.frontends.base.iree_compiler import NOT_LOWERED
from tvm_iree_ext.frontends.base.model_support import ModelSupport, NodeSupport, Way
from tvm_iree_ext.frontends.torch.torch_modules import import_torch

_FRONT_END = "IREE"
_LONGEST = 160  # characters of a reason
_ILLEGAL = re.compile(r'failed to legalize operation.*?"torch\.((?!operator")[\w.]+)"')
_PLACE = re.compile(r"^\S+:\d+:\d+: (error: )?")


def read_exported(path: str | os.PathLike[str]) -> Any:
    """The ``ExportedProgram`` of a file of ``torch.export.save``.

    Raises:
        MlirError: where PyTorch is not installed, or the file holds no program.
    """
    try:
        import torch
    except ImportError as error:
        raise MlirError(
            f"PyTorch is not installed: {error}; pip install 'tvm-iree-ext[pytorch]'"
        ) from None
    try:
        if zipfile.is_zipfile(path):
            return torch.export.load(os.fspath(path))
        reason = "it is no archive" if os.path.exists(path) else "there is no such file"
    except (OSError, RuntimeError, ValueError, LookupError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
    raise MlirError(f"{os.fspath(path)} is no program of torch.export.save: {reason}")


def support_torch(module: Any, *examples: Any, **options: Any) -> ModelSupport:
    """Say what becomes of each operator of a module, without building anything.

    The module is imported as a whole.  Where it is refused, each of its operators is tried alone,
    with tensors of the shapes that it gets in the module, open extents among them.

    Args:
        module: as of :func:`~tvm_iree_ext.frontends.from_torch`, as are the others;
            an exported program takes no examples.

    Raises:
        MlirError: where PyTorch or IREE is not installed, or the module cannot be exported.
    """
    import torch

    if isinstance(module, torch.nn.Module):
        tracing = {name: options.pop(name) for name in _OF_TRACING if name in options}
        module = torch.export.export(module, args=tuple(examples), **tracing)
    elif examples:
        raise MlirError("what is exported already takes no arguments to trace with")
    nodes = [
        node
        for node in module.graph.nodes
        if node.op == "call_function" and node.target is not operator.getitem
    ]
    try:
        import_torch(module, **options)
    except ExtError as error:
        known: dict[str, NodeSupport] = {}
        alone = [_alone(node, known) for node in nodes]
        return ModelSupport(tuple(alone), reason=_reason(error))
    return ModelSupport(tuple(_described(node) for node in nodes), _FRONT_END)


_OF_TRACING = ("kwargs", "dynamic_shapes", "strict")


def _described(node: Any) -> NodeSupport:
    """A node that is taken: as it is, or by other operators."""
    from tvm_iree_ext.frontends.torch.torch_decompositions import is_replaced

    way: Way = "replaced" if is_replaced(node) else "taken"
    return NodeSupport(node.name, str(node.target), way, _FRONT_END, place=_place(node))


def _place(node: Any) -> str:
    """The line of the user's program that a node is of, as ``file:line``."""
    from tvm_iree_ext.frontends.torch.torch_decompositions import user_lines

    lines = user_lines(str(node.meta.get("stack_trace") or ""))
    return lines[-1] if lines else ""


def _alone(node: Any, known: dict[str, NodeSupport]) -> NodeSupport:
    key = _key(node)
    if key not in known:
        known[key] = _tried(node)
    return replace(known[key], name=node.name, place=_place(node))


def _key(node: Any) -> str:
    """What two nodes share that are alike but for their operands' names."""
    import torch

    def said(one: Any) -> str:
        value = one.meta.get("val") if isinstance(one, torch.fx.Node) else one
        if isinstance(value, torch.Tensor):
            return f"{value.dtype}{list(value.shape)}"
        return repr(value)

    given = torch.utils._pytree.tree_leaves((node.args, node.kwargs))
    return " ".join([str(node.target), *map(said, given)])


def _tried(node: Any) -> NodeSupport:
    import torch

    name = str(node.target)
    try:
        function, tensors, open_axes = _function(node)
    except ValueError as reason:
        return NodeSupport(node.name, name, "refused", reason=f"not tried: {reason}")

    class Alone(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return function(*given)

    try:
        import_torch(
            Alone(), *tensors, strict_export=False, dynamic_shapes={"given": tuple(open_axes)}
        )
    except Exception as error:  # of any kind, from PyTorch's exporter, too
        return NodeSupport(node.name, name, "refused", reason=_reason(error))
    return _described(node)


def _reason(error: BaseException) -> str:
    """The operator that IREE does not lower, or else the first line that says something."""
    if illegal := _ILLEGAL.search(str(error)):
        return f"IREE does not lower {illegal[1]}"
    lines = (line.strip() for line in str(error).splitlines())
    first = next((line for line in lines if line and line != NOT_LOWERED), type(error).__name__)
    return textwrap.shorten(_PLACE.sub("", first), _LONGEST, placeholder=" ...")


def _function(node: Any) -> tuple[Callable[..., Any], list[Any], list[Any]]:
    """What a node computes of its tensors, tensors for it, and the axes of these that are open.

    Raises:
        ValueError: where it reads what is no tensor or number.
    """
    import torch

    tensors: list[Any] = []
    open_axes: list[Any] = []
    places: list[int | None] = []
    leaves, spec = torch.utils._pytree.tree_flatten((node.args, node.kwargs))
    constants: list[Any] = []
    for leaf in leaves:
        value = leaf.meta.get("val") if isinstance(leaf, torch.fx.Node) else leaf
        if isinstance(value, torch.Tensor):
            places.append(len(tensors))
            tensors.append(torch.zeros([_hint(one) for one in value.shape], dtype=value.dtype))
            auto = torch.export.Dim.AUTO
            sizes = enumerate(value.shape)
            open_axes.append({axis: auto for axis, size in sizes if not isinstance(size, int)})
            constants.append(None)
            continue
        value = _hint(value)
        if isinstance(leaf, torch.fx.Node) and not isinstance(value, int | float | bool):
            raise ValueError(f"it reads {leaf.name}, which is no tensor")
        places.append(None)
        constants.append(value)

    def function(*given: Any) -> Any:
        values = [
            constant if place is None else given[place]
            for place, constant in zip(places, constants, strict=True)
        ]
        args, kwargs = torch.utils._pytree.tree_unflatten(values, spec)
        return node.target(*args, **kwargs)

    return function, tensors, open_axes


def _hint(value: Any) -> Any:
    """A number, or what an open one was when the program was traced."""
    hint = getattr(getattr(value, "node", None), "hint", None)
    return value if hint is None else hint
