"""PyTorch's loops: made of a count, and written so that IREE's front end takes them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop_op

Tensors = Sequence[Any]


def repeated(
    count: int,
    step: Callable[[Any, Tensors, Tensors], Tensors],
    state: Tensors,
    given: Tensors = (),
) -> Tensors:
    """A state after ``count`` steps.

    Args:
        count: how many.
        step: takes the number of a step, a tensor of rank 0, the state and what is given; and
            gives the next state, in memory of its own.
        state: tensors; a loop begins with copies of them.
        given: tensors that steps read and that stay as they are.
    """
    if count == 0:
        return state
    if count == 1:
        return step(torch.zeros((), dtype=torch.int64), state, given)

    def goes_on(number: Any, *rest: Any) -> Any:
        return number < count

    def body(number: Any, *rest: Any) -> tuple[Any, ...]:
        return number + 1, *step(number, rest[: len(state)], rest[len(state) :])

    begin = torch.zeros((), dtype=torch.int64)
    return repeated_while(goes_on, body, (begin, *state), given)[1:]


def repeated_while(
    goes_on: Callable[..., Any],
    step: Callable[..., Tensors],
    state: Tensors,
    given: Tensors = (),
) -> Tensors:
    """A state after the last step.

    Written in PyTorch's own operator: its function ``while_loop`` compiles the step first, for
    shapes that earlier programs of the process had.

    Args:
        goes_on: takes the state and what is given; says by a bool of rank 0 whether to go on.
        step: takes the same, and gives the next state, in memory of its own.
        state: tensors; a loop begins with contiguous copies of them, and each step's results
            must be contiguous, too.
        given: tensors that steps read, contiguous, and that stay as they are.
    """
    begin = tuple(one.clone(memory_format=torch.contiguous_format) for one in state)
    read = tuple(one.contiguous() for one in given)
    found: Tensors = while_loop_op(goes_on, step, begin, read)
    return found


@contextmanager
def all_carried(program: Any) -> Iterator[None]:
    """Have each loop of a program carry what it reads, which IREE's front end does not see."""
    undone = []
    for graph in graphs_of(program):
        for node in graph.find_nodes(op="call_function", target=while_loop_op):
            condition, body, carried, read = node.args
            if not read:
                continue
            inner = getattr(graph.owning_module, body.target).graph
            (output,) = inner.find_nodes(op="output")
            inputs = inner.find_nodes(op="placeholder")
            undone += [(node, node.args, node.meta), (output, output.args, output.meta)]
            output.args = ((*output.args[0], *inputs[len(carried) :]),)
            node.args = condition, body, (*carried, *read), ()
            values = (one.meta["val"] for one in read)
            node.meta = {**node.meta, "val": (*node.meta["val"], *values)}
    try:
        yield
    finally:
        for node, arguments, meta in undone:
            node.args, node.meta = arguments, meta


def graphs_of(program: Any) -> list[Any]:
    """The graphs of an exported program, those of loops and branches, too; none of another."""
    root = getattr(program, "graph_module", None)
    modules = () if root is None else root.modules()
    return [one.graph for one in modules if isinstance(one, torch.fx.GraphModule)]
