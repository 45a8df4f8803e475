"""Which registers a block reads of others, and which it writes for others."""

from collections.abc import Sequence

from tvm_iree_ext.emulator.ptx.running.program import PtxBlock


def set_liveness(blocks: Sequence[PtxBlock]) -> None:
    """Note what each block reads of others, and writes for others; bits of an integer are slots."""
    reads, writes, after = [], [], []
    for block in blocks:
        read = written = 0
        steps = [*block.steps, *([block.wait] if block.wait else [])]
        for step in steps:
            taken_ = list(step.sources)
            if step.guard >= 0:
                taken_ += [step.guard, *step.targets]  # lanes that take no part keep theirs
            for slot in taken_:
                if not written >> slot & 1:
                    read |= 1 << slot
            for slot in step.targets:
                written |= 1 << slot
        if block.condition >= 0 and not written >> block.condition & 1:
            read |= 1 << block.condition
        reads.append(read)
        writes.append(written)
        after.append([n for n in successors(block) if n < len(blocks)])
    live = list(reads)
    changed = True
    while changed:
        changed = False
        for number in range(len(blocks) - 1, -1, -1):
            out = 0
            for one in after[number]:
                out |= live[one]
            into = reads[number] | out & ~writes[number]
            if into != live[number]:
                live[number], changed = into, True
    for number, block in enumerate(blocks):
        out = 0
        for one in after[number]:
            out |= live[one]
        block.reads = _places(reads[number])
        block.writes = _places(writes[number] & out)


def successors(block: PtxBlock) -> list[int]:
    """Where lanes may be after a block."""
    found = [*block.table]
    if block.branch is not None and not block.table:
        found.append(block.branch)
    if not block.table and (block.branch is None or block.condition >= 0):
        found.append(block.following)
    return found


def _places(bits: int) -> tuple[int, ...]:
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return tuple(found)
