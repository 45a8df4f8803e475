"""PyTorch's tensors of callers: which of them a kernel cannot take for their elements.

A tensor may carry more than its elements, such as a tangent, and may have none in memory: within
``torch.vmap``, in a graph that is only traced, or after its storage was freed.
"""

import sys
from collections.abc import Callable
from typing import Any

from tvm_iree_ext.base.errors import CallError


def torch_module() -> Any:
    """PyTorch where the caller has imported it, else None: no array is a tensor of it then."""
    return sys.modules.get("torch")


def outside_graphs(call: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which dynamo calls and does not trace; it takes this from its attributes."""
    marked: Any = call
    marked._torchdynamo_disable = True
    marked._torchdynamo_disable_msg = "a graph takes the operator that torch_op gives"
    return call


def check_plain(name: str, tensor: Any, torch: Any) -> None:
    """Ask for what a kernel would ignore; takes 0.2 us.

    Raises:
        CallError: for a nested tensor, one whose class keeps elements elsewhere, and one with a
            tangent.
    """
    if tensor.is_nested:
        raise CallError(f"{name} is a nested tensor; expected a dense one")
    kind = type(tensor)
    if kind is not torch.Tensor and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        what = f"{name} is a {kind.__name__}, which has no elements in memory of its own"
        if kind.__name__ == "FakeTensor":
            raise CallError(f"{what}; in what is traced take the operator that torch_op gives")
        raise CallError(f"{what}; expected a plain tensor")
    forward = torch.autograd.forward_ad
    if getattr(forward, "_current_level", 0) < 0:  # no tangents, as in most programs
        return
    if forward.unpack_dual(tensor).tangent is not None:
        raise CallError(
            f"{name} carries a forward-mode tangent, and a kernel has no derivative;"
            " pass its primal, of torch.autograd.forward_ad.unpack_dual"
        )


def check_no_gradient(name: str, tensor: Any, torch: Any) -> None:
    """Raise CallError for a tensor whose gradient would be lost."""
    if tensor.requires_grad and torch.is_grad_enabled():
        raise CallError(
            f"{name} requires grad, and a kernel has no backward pass;"
            " detach() it, or call under torch.no_grad()"
        )


def address(name: str, tensor: Any, torch: Any) -> int:
    """Address of the first element of a tensor.

    Raises:
        CallError: for one whose elements are not in memory.
    """
    try:
        found = int(tensor.data_ptr())
    except RuntimeError:  # of a tensor without storage
        found = 0
    if not found and tensor.numel():
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            raise CallError(
                f"{name} is inside a transform of torch.func, such as vmap; a kernel takes plain"
                " tensors and is no part of a transform"
            )
        raise CallError(f"{name} has no elements in memory; its storage may have been freed")
    return found
