"""The backend of ``torch.compile``: a program for each graph that dynamo gives."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_iree_ext.base.errors import ExtError, MlirError
from tvm_iree_ext.frontends.torch.torch_graphs import DynamoGraph
from tvm_iree_ext.frontends.torch.torch_modules import from_torch
from tvm_iree_ext.targets.names import TargetLike

_LOG = logging.getLogger(__name__)
_OPTIONS = ("target", "fallback", "freeze")


def torch_backend(
    graph: Any,
    examples: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Build a graph of dynamo's: ``torch.compile(model, backend="tvm_iree_ext")``.

    Weights come with each call, as dynamo passes them: in the memory that the module has.

    Args:
        graph: a ``torch.fx.GraphModule``.
        examples: its inputs: tensors, and extents that dynamo leaves open.
        options: ``target``, as of :func:`~tvm_iree_ext.frontends.torch.torch_modules.from_torch``;
            ``fallback``, whether a graph that is not taken runs as eager PyTorch, with a warning in
            the log; ``freeze``, whether parameters become constants of the program, which then does
            not see what is written into them later.
        mode: there is none.

    Returns:
        What computes the graph.

    Raises:
        MlirError: for a graph that is not taken, which says why, and other options.
        ExtError: as :func:`~tvm_iree_ext.frontends.torch.torch_modules.from_torch`.
    """
    chosen = dict(options or {})
    if mode is not None:
        raise MlirError(f"torch.compile: the mode {mode!r} is inductor's; this backend has none")
    if unknown := sorted(chosen.keys() - set(_OPTIONS)):
        raise MlirError(
            f"torch.compile: there is no option {unknown[0]!r}; expected {', '.join(_OPTIONS)}"
        )
    try:
        return _built(graph, examples, chosen.get("target", "llvm"), bool(chosen.get("freeze")))
    except ExtError as reason:
        if not chosen.get("fallback"):
            raise
        _LOG.warning("a graph of torch.compile runs as eager PyTorch: %s", reason)
        return graph.forward


def _built(graph: Any, examples: Sequence[Any], target: TargetLike, is_frozen: bool) -> Any:
    import torch

    found = DynamoGraph(graph, examples, is_frozen=is_frozen)
    if found.is_trivial:
        return graph.forward
    if torch.is_grad_enabled():
        for name, one in found.tensors():
            if one.requires_grad:
                raise MlirError(
                    f"torch.compile: {name} requires grad, and a program has no backward pass;"
                    " call the model under torch.no_grad()"
                )
    module, tensors, shapes = found.module()
    dynamic: dict[str, Any] = {"dynamic_shapes": (shapes,)} if any(shapes) else {}
    try:
        with torch._guards.tracing(None), torch.no_grad():
            program = from_torch(module, *tensors, target=target, strict_export=False, **dynamic)
    except ExtError:
        raise
    except Exception as error:  # of PyTorch's exporter, which has many
        raise MlirError(f"torch.export: {type(error).__name__}: {error}") from error
    return found.caller(program.main)
