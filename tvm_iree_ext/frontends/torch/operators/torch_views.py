"""PyTorch's reshapes of several open axes, by ones that IREE's front end takes.

Where several become one, it takes the first for the result's, and all others for 1.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from operator import mul
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from tvm_iree_ext.base.errors import MlirError

aten = torch.ops.aten


def is_foreign(node: Any) -> bool:
    """Whether a node of a graph reshapes what has several open axes, or makes such of one."""
    if node.target not in VIEWS:
        return False
    value = node.args[0].meta.get("val")
    return value is not None and max(_open(value.shape), _open(node.meta["val"].shape)) > 1


def tell_extent(node: Any) -> None:
    """Write the extent that -1 stands for, where it is that of an open axis of an argument.

    IREE's front end knows none that is a quotient of two open ones.
    """
    shape, wanted = list(node.args[1]), node.meta["val"].shape
    if -1 not in shape or _open(wanted) <= _open(node.args[0].meta["val"].shape):
        return
    place = shape.index(-1)
    for one in node.graph.find_nodes(op="placeholder"):
        for axis, extent in enumerate(getattr(one.meta.get("val"), "shape", ())):
            if not isinstance(extent, int) and statically_known_true(extent == wanted[place]):
                with node.graph.inserting_before(node):
                    shape[place] = node.graph.call_function(aten.sym_size.int, (one, axis))
                shape[place].meta["val"] = extent
                node.args = (node.args[0], shape)
                return
    raise MlirError(
        f"{node.target}: -1 stands for an extent that divides those of a call; write the extent"
    )


def view(x: Any, shape: Sequence[Any]) -> Any:
    """A reshape; open axes that become fewer are one axis first."""
    wanted = aten.view.default(x, shape).shape
    if not any(isinstance(one, int) and one == 0 for one in x.shape):
        for (start, end), (first, last) in reversed(_groups(x.shape, wanted)):
            if _open(x.shape[start:end]) > max(1, _open(wanted[first:last])):
                x = torch.flatten(x, start, end - 1)
    return aten.view.default(x, shape)


def reshape(x: Any, shape: Sequence[Any]) -> Any:
    """The same of what need not be contiguous."""
    return view(x.contiguous(), shape)


def _open(shape: Iterable[Any]) -> int:
    return sum(not isinstance(one, int) for one in shape)


def _groups(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[tuple[int, int], ...]]:
    """Runs of axes of two shapes that have as many elements in any call, as short as they can be.

    Each is start and end in the one shape, and in the other.
    """
    sizes, others = ([1, *accumulate(shape, mul)] for shape in (before, after))
    cuts = [(0, 0)]
    for i in range(1, len(sizes)):
        for j in range(cuts[-1][1] + 1, len(others)):
            if statically_known_true(sizes[i] == others[j]):
                cuts.append((i, j))
                break
    end = len(before), len(after)
    if cuts[-1] != end:
        cuts = [(0, 0), *cuts[1:-1], end]
    return [((a, b), (c, d)) for (a, c), (b, d) in pairwise(cuts)]


VIEWS: dict[Any, Callable[..., Any]] = {
    aten.view.default: view,
    aten._unsafe_view.default: view,
    aten.reshape.default: reshape,
}
