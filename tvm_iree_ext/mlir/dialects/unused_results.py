"""Results of ``linalg.generic`` that nothing uses: the loops without them.

A maximum comes with its place, as PyTorch's ``max`` of a dim does; alone it is a reduction that
runs in vectors.
"""

from collections.abc import Sequence

from tvm_iree_ext.mlir.reading import form

_PURE = ("arith.", "linalg.", "math.", "tensor.")


def drop_unused_results(function: form.ParsedOperation) -> None:
    """Have the loops of a function compute what is used, changing them where they stand."""
    for block in (block for region in function.regions for block in region):
        used: set[int] = set()
        unused: set[int] = set()  # operations
        dropped: set[int] = set()  # results of loops, and of what takes them
        for op in reversed(block.operations):
            if op.results and op.name.startswith(_PURE):
                kept = [number for number, one in enumerate(op.results) if id(one) in used]
                if not kept:
                    unused.add(id(op))
                    continue
                if op.name == "linalg.generic" and len(kept) < len(op.results) and op.segments:
                    before = {id(one) for one in op.results}
                    _keep(op, _with_sources(op, kept))
                    dropped |= before - {id(one) for one in op.results}
            used.update(id(operand) for inner in op.walk() for operand in inner.operands)
        left = []
        for op in block.operations:
            taken = {id(operand) for inner in op.walk() for operand in inner.operands}
            if id(op) in unused and taken & dropped:
                dropped |= {id(one) for one in op.results}
            else:
                left.append(op)
        block.operations = left


def needed(operations: Sequence[form.ParsedOperation]) -> set[int]:
    """The operations, by id, on which the last depends."""
    wanted = {id(value) for value in operations[-1].operands}
    found = {id(operations[-1])}
    for op in reversed(operations[:-1]):
        if any(id(result) in wanted for result in op.results):
            found.add(id(op))
            wanted.update(id(value) for inner in op.walk() for value in inner.operands)
    return found


def _yielding(
    op: form.ParsedOperation, kept: Sequence[int]
) -> tuple[list[form.ParsedOperation], set[int]]:
    """The operations that some results take, the terminator last, and the values they use."""
    *operations, last = op.block().operations
    values = [last.operands[number] for number in kept]
    end = form.ParsedOperation(
        last.name, values, [], last.attributes, [], last.location, last.segments
    )
    wanted = needed([*operations, end])
    chosen = [one for one in operations if id(one) in wanted] + [end]
    return chosen, {id(value) for one in chosen for inner in one.walk() for value in inner.operands}


def _with_sources(op: form.ParsedOperation, kept: list[int]) -> list[int]:
    """Some results of loops, and those that these are computed of."""
    outs = op.block().arguments[op.segments[0] :]
    while True:
        _, values = _yielding(op, kept)
        more = [n for n, out in enumerate(outs) if n in kept or id(out) in values]
        if more == kept:
            return kept
        kept = more


def _keep(op: form.ParsedOperation, kept: Sequence[int]) -> None:
    inputs = op.segments[0]
    places = [*range(inputs), *(inputs + number for number in kept)]
    operations, _ = _yielding(op, kept)
    block = op.block()
    maps = op.attributes["indexing_maps"]
    op.operands = [op.operands[place] for place in places]
    op.results = [op.results[number] for number in kept]
    op.attributes = {**op.attributes, "indexing_maps": tuple(maps[place] for place in places)}
    op.regions = [[form.ParsedBlock([block.arguments[place] for place in places], operations)]]
    op.segments = (inputs, len(kept))
