"""An order of blocks in which ways that part meet again as early as they can.

Lanes at the earliest block go first.  So a block must come after all from which it is reached, and
what follows a loop after all of the loop: then lanes wait where ways join, and behind a loop, until
the others are there.  The text's order is not such a one: what is seldom executed stands last.

A loop is what can be reached from one another; without the ways back to where it is entered it is
ordered alike.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tvm_iree_ext.emulator.ptx.running.liveness import successors
from tvm_iree_ext.emulator.ptx.running.program import EXIT, PtxBlock

Edges = Mapping[int, Sequence[int]]


def ordered(blocks: Sequence[PtxBlock]) -> list[PtxBlock]:
    """The blocks in such an order, with their new numbers."""
    edges = {block.number: [n for n in successors(block) if n != EXIT] for block in blocks}
    order = block_order(edges, 0)
    reached = set(order)
    order += [block.number for block in blocks if block.number not in reached]
    new = {old: number for number, old in enumerate(order)} | {EXIT: EXIT}
    return [_renumbered(blocks[old], new) for old in order]


def _renumbered(block: PtxBlock, new: Mapping[int, int]) -> PtxBlock:
    return replace(
        block,
        number=new[block.number],
        branch=None if block.branch is None else new[block.branch],
        following=new[block.following],
        table=tuple(new[one] for one in block.table),
    )


def block_order(edges: Edges, entry: int) -> list[int]:
    """The numbers of what is reached from ``entry``, in order."""
    found: list[int] = []
    # What is still to be ordered, the first last: nodes, and where they are entered.
    waiting: list[tuple[Collection[int], int]] = [(set(edges), entry)]
    while waiting:
        nodes, first = waiting.pop()
        if len(nodes) == 1:
            found += nodes
            continue
        # Ways back to the entry are left out.
        inside = {
            node: [other for other in edges[node] if other in nodes and other != first]
            for node in nodes
        }
        components = _components(inside, first)
        entries = _entries(inside, components, first)
        waiting += [(set(one), entries[one[0]]) for one in components]
    return found


def _entries(edges: Edges, components: Sequence[Sequence[int]], entry: int) -> dict[int, int]:
    """Where each component is entered from outside, by its first node."""
    home = {node: component[0] for component in components for node in component}
    found = {home[entry]: entry}
    for node in home:
        for other in edges[node]:
            if home[other] != home[node]:
                found[home[other]] = min(other, found.get(home[other], other))
    return found


def _components(edges: Edges, entry: int) -> list[list[int]]:
    """What can be reached from one another, of all that is reached from ``entry``; last ones first.

    Source: Tarjan, *Depth-first search and linear graph algorithms*, 1972.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    work = [(entry, iter(edges[entry]))]
    index[entry] = low[entry] = 0
    stack.append(entry)
    on_stack.add(entry)
    while work:
        node, others = work[-1]
        other = next(others, None)
        if other is None:
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                component: list[int] = []
                while not component or component[-1] != node:
                    component.append(stack.pop())
                    on_stack.discard(component[-1])
                found.append(component)
        elif other not in index:
            index[other] = low[other] = len(index)
            stack.append(other)
            on_stack.add(other)
            work.append((other, iter(edges[other])))
        elif other in on_stack:
            low[node] = min(low[node], index[other])
    return found
