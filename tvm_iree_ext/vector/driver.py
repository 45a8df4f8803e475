"""The order of the patterns: from structured ops on tensors to native vectors, stage by stage.

tile -> vectorize -> unroll -> drop unit dims -> decompose slices -> hoist -> lower.  Each pattern
is small and counts on what those before it have done; another order stops the later ones.

>>> from tvm_iree_ext import vector
>>> for stage in vector.stages(vector.programs.dot()):
...     print(f"{stage.name:18} {stage.counts['loop'].total():3} ops, {stage.carried}")
source               0 ops, []
tiled                3 ops, ['tensor 4x4']
vectorised           5 ops, ['tensor 4x4']
unrolled            48 ops, ['tensor 4x4']
unit_dims_dropped   52 ops, ['tensor 4x4']
decomposed          52 ops, ['tensor 4x4']
hoisted             44 ops, ['4 x vector 4']
outer_products      40 ops, ['4 x vector 4']
lowered             56 ops, ['4 x vector 4']
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tvm_iree_ext.vector.counts import Counts, carried
from tvm_iree_ext.vector.ops.contract import REDUCTION
from tvm_iree_ext.vector.ops.structured import CONVOLUTIONS, is_structured, nest_of
from tvm_iree_ext.vector.patterns import (
    Registers,
    Tiling,
    canonicalize,
    decompose_slices,
    drop_unit_dims,
    hoist_transfers,
    lower_contracts,
    lower_outer_products,
    lower_reductions,
    lower_rows,
    lower_slices,
    lower_transfers,
    lower_transposes,
    tile,
    unroll,
    vectorize,
)
from tvm_iree_ext.vector.tile_program import Program
from tvm_iree_ext.vector.types import bits

SOURCE = "source"


@dataclass(frozen=True)
class Stage:
    """A program on its way, after one of the patterns.

    Attributes:
        name: of the stage.
        program: with the results of the first stage; to be printed, evaluated and built.
        why: what the pattern does, and what for.
    """

    name: str
    program: Program
    why: str

    @property
    def text(self) -> str:
        """The program in the manner of the article's listings."""
        return str(self.program)

    @property
    def counts(self) -> dict[str, Counts]:
        """How many ops of each kind are before, in and after the loop."""
        return self.program.counts()

    @property
    def carried(self) -> list[str]:
        """What the innermost loops carry."""
        return carried(self.program.body)


_WHY = {
    SOURCE: "Structured ops on whole tensors: loop nests with named dims.",
    "tiled": (
        "Tiles are given to workgroups and threads, and the reduction is cut into steps. All"
        " parallelism between processors is decided here; what is left is small, has static"
        " sizes, and is computed by one SIMD unit. What comes before and after the reduction is"
        " computed tile by tile, where it is needed."
    ),
    "vectorised": (
        "Each structured op on a tile becomes vectors: operands are read, one op computes, the"
        " result is written. Static sizes are what makes this possible."
    ),
    "unrolled": (
        "Vectors are cut into pieces that the hardware has. Where pieces that were cut meet"
        " pieces that were put together, both vanish."
    ),
    "unit_dims_dropped": (
        "What is one row has one dim. It comes before hoisting, since a loop that carries n-D"
        " vectors would stop the patterns that follow."
    ),
    "decomposed": "Slices of vectors that still have several dims become whole registers.",
    "hoisted": (
        "The accumulator is read before the loop and written after it, and the loop carries"
        " registers: no load or store of it is left inside. What was written before the loop is"
        " forwarded to the reads; the writes themselves are dead now."
    ),
    "outer_products": (
        "A contraction becomes sums of outer products, here of a row and a scalar: no operation"
        " across the lanes of a register."
    ),
    "lowered": (
        "Each op is one instruction of the hardware: fma of a splat and a row, loads and stores of"
        " one register. What is dead is gone."
    ),
}


def stages(
    program: Program, target: Registers | None = None, tiling: Tiling | None = None
) -> Iterator[Stage]:
    """The program after each pattern, in order.

    Args:
        program: structured ops on tensors.
        target: the registers that ops are cut for; 128 bits by default, as in the article.
        tiling: by default that of :func:`tiling_of`.

    Raises:
        VectorError: where a pattern does not apply, such as to an extent that is not known.
    """
    registers = target or Registers()
    tiles = tiling or tiling_of(program, registers)
    steps: dict[str, Callable[[Program], Program]] = {
        "tiled": lambda p: tile(p, tiles),
        "vectorised": vectorize,
        "unrolled": lambda p: unroll(p, registers),
        "unit_dims_dropped": drop_unit_dims,
        "decomposed": decompose_slices,
        "hoisted": hoist_transfers,
        "outer_products": lambda p: canonicalize(lower_contracts(p)),
        "lowered": lower,
    }
    yield Stage(SOURCE, program, _WHY[SOURCE])
    for name, step in steps.items():
        program = step(program)
        yield Stage(name, program, _WHY[name])


def lower(program: Program) -> Program:
    """What is left of n-D vectors to ops on one register, and no op that has no use."""
    for step in (
        lower_contracts,
        lower_outer_products,
        lower_reductions,
        lower_transfers,
        lower_transposes,
        decompose_slices,
        lower_rows,
        lower_slices,
        canonicalize,
    ):
        program = step(program)
    return program


# Of the article: workgroups of 8 x 32, threads of 4 rows (of a convolution, 2 columns) of one
# register each, steps of 4 along a sum and of 1 along a window.
_ROWS, _COLUMNS, _STEP = 4, 2, 4


def tiling_of(program: Program, registers: Registers) -> Tiling:
    """The article's tiles for a program: threads have some rows of one register each."""
    results = [v for v in program.body.terminator.operands if v.op and is_structured(v.op)]
    nests = [
        op for op in program.walk() if is_structured(op) and REDUCTION in nest_of(op).iterators
    ]
    shape = results[0].shape if results else ()
    is_window = any(op.name in CONVOLUTIONS for op in nests)
    wide = max((bits(value.dtype) for value in results), default=32)
    lanes = max(1, registers.vector_bits // wide)
    wanted = [1] * len(shape)
    outer = [1] * len(shape)
    for place, (one, group) in enumerate(
        zip((lanes, _COLUMNS if is_window else _ROWS), (32, 4 if is_window else 8), strict=True), 1
    ):
        if place <= len(shape):
            wanted[-place] = _least(one, shape[-place])
            outer[-place] = -(-group // wanted[-place]) * wanted[-place]
    if is_window and len(shape) > 2:
        outer[-3] = 4
    counts = [nest_of(op).iterators.count(REDUCTION) for op in nests]
    steps = (1, 1, 0) if is_window else (_STEP,) if counts and set(counts) == {1} else ()
    return Tiling(tuple(outer), tuple(wanted), steps)


def _least(size: int, extent: object) -> int:
    return min(size, extent) if isinstance(extent, int) else size
