"""What PyTorch leaves open: the order of equal elements, signs of vectors, roundings of 16 bits."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.conformance.outcomes import Verdict

_ORDERS = ("sort", "argsort", "topk", "kthvalue")
_OF_ANY_SIGN = ("svd", "linalg.svd", "linalg.eigh")


def without_signs(op: str, called: Callable[..., Any], sample: Any) -> Callable[..., Any]:
    """An operator, or one with what PyTorch's own tests do to vectors that may have any sign."""
    if op not in _OF_ANY_SIGN:
        return called
    return lambda *given, **named: sample.output_process_fn_grad(called(*given, **named))


def is_other_order(torch: Any, op: str, x: Any, results: Sequence[Any], wanted: Any) -> bool:
    """Whether places differ among equal elements alone, and none comes twice."""
    if op not in _ORDERS or len(results) != len(wanted):
        return False
    *values, places = (torch.as_tensor(one) for one in results)
    *others, expected = wanted
    if places.dtype is not expected.dtype or places.shape != expected.shape:
        return False
    if not all(torch.equal(a, b) for a, b in zip(values, others, strict=True)):
        return False
    for dim in range(x.dim()):
        a, b = (one if one.dim() == x.dim() else one.unsqueeze(dim) for one in (places, expected))
        if any(a.shape[axis] != x.shape[axis] for axis in range(x.dim()) if axis != dim):
            continue
        if int(a.max()) >= x.shape[dim] or int(a.min()) < 0 or int(b.max()) >= x.shape[dim]:
            continue
        in_turn = a.sort(dim)[0]
        is_twice = bool((in_turn.diff(dim=dim) == 0).any())
        if not is_twice and torch.equal(x.gather(dim, a), x.gather(dim, b)):
            return True
    return False


def is_nearer(
    torch: Any,
    function: Callable[..., Any],
    tensors: Sequence[Any],
    results: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
) -> bool:
    """Whether results of 16 bits are as near as PyTorch's to what it gives in float32."""
    if any(one.dtype.name != "bfloat16" for one in wanted):
        return False
    if [one.shape for one in results] != [one.shape for one in wanted]:
        return False
    wide = [one.float() if one.is_floating_point() else one.clone() for one in tensors]
    with torch.no_grad():
        leaves = torch.utils._pytree.tree_leaves(function(*wide))
    exact = [one.detach().numpy() for one in leaves if isinstance(one, torch.Tensor)]
    for ours, theirs, right in zip(results, wanted, exact, strict=True):
        errors = [
            np.nan_to_num(np.abs(one.astype(np.float64) - right), nan=np.inf).max(initial=0.0)
            for one in (ours, theirs)
        ]
        if not np.isfinite(errors[0]) or errors[0] > errors[1]:
            return False
    return True


OTHER_ORDER = Verdict("right", "equal elements in another order")
NEARER = Verdict("right", "nearer to float32 than PyTorch's own")
