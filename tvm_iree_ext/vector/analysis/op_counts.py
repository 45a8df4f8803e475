"""Counts of a program's operations, by spelling and by region, for the tables of stages.

An op is spelled by its name without dialect and the shapes that matter: ``transfer_read 1x4``,
``contract 1x1,1x4,1x4``, ``extract_strided_slice 4x4->1x4``, ``extract 4->scalar``.  Constants and
arithmetic on scalars are not counted.
"""

from collections import Counter

from tvm_iree_ext.vector.ir.core import Block, Operation
from tvm_iree_ext.vector.ir.vector_types import VectorType, extents

BEFORE, OUTER, LOOP, AFTER = "before", "outer", "loop", "after"


class Counts(Counter[str]):
    """Counts by spelling; :meth:`of` sums those that an abbreviated spelling means."""

    def of(self, spelling: str) -> int:
        """The count of a spelling, or of all that begin with this name.

        >>> counts = Counts({"contract 1x1,1x4,1x4": 16, "extract 4->scalar": 3})
        >>> counts.of("contract"), counts.of("extract ->scalar"), counts.of("fma 4")
        (16, 3, 0)
        """
        if spelling in self:
            return self[spelling]
        name, _, shapes = spelling.partition(" ")
        return sum(
            count
            for one, count in self.items()
            if one.partition(" ")[0] == name
            and (not shapes or (shapes.startswith("->") and one.endswith(shapes)))
        )


def count(block: Block) -> Counts:
    """All operations of a block, those inside others too."""
    found = Counts()
    for op in block.walk():
        spelling = op.definition.spelling(op)
        if spelling is not None:
            found[spelling] += 1
    return found


def count_regions(body: Block) -> dict[str, Counts]:
    """Counts before, in and after the first loop nest (scf.for) of a program.

    ``loop`` is the innermost loops' bodies, ``outer`` what stands around them in loops that hold
    loops.  ``scf.forall`` is no loop here: its bodies run on units of their own.  Without a loop
    all is ``before``.
    """
    found = {region: Counts() for region in (BEFORE, OUTER, LOOP, AFTER)}
    _count(body, BEFORE, found)
    return found


def _count(block: Block, region: str, found: dict[str, Counts]) -> str:
    """Count a block that begins in a region; the region in which it ends."""
    for op in block.operations:
        spelling = op.definition.spelling(op)
        if op.name == "scf.for":
            _count(op.body, OUTER if _has_loop(op) else LOOP, found)
            region = AFTER if region == BEFORE else region
            continue
        if spelling is not None:
            found[region][spelling] += 1
        if not op.name.startswith("linalg."):
            for inner in op.regions:
                region = _count(inner, region, found)
    return region


def _has_loop(op: Operation) -> bool:
    return any(inner.name == "scf.for" for block in op.regions for inner in block.walk())


def carried(body: Block) -> list[str]:
    """Types carried by the innermost loops, in order: ``tensor 4x4``, or ``4 x vector 4``."""
    found = []
    for op in body.walk():
        if op.name == "scf.for" and not _has_loop(op):
            shapes = Counter(
                f"{'vector' if isinstance(v.type, VectorType) else 'tensor'} {extents(v.shape)}"
                for v in op.body.carried
            )
            texts = (f"{n} x {text}" if n > 1 else text for text, n in shapes.items())
            found.append(", ".join(texts))
    return found
