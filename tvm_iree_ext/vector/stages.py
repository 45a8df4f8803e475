"""The order of the patterns: from structured ops on tensors to native vectors, stage by stage.

tile -> vectorize -> unroll -> drop unit dims -> decompose slices -> hoist -> lower.  Each pattern
is small and counts on what those before it have done; another order stops the later ones.

>>> from tvm_iree_ext import vector
>>> for stage in vector.stages(vector.article_programs.dot()):
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
from itertools import takewhile
from textwrap import dedent

from tvm_iree_ext.vector import patterns
from tvm_iree_ext.vector.analysis.costs import VectorProcessor, contraction_tile
from tvm_iree_ext.vector.analysis.op_counts import Counts, carried
from tvm_iree_ext.vector.ir.core import Operation
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import bits
from tvm_iree_ext.vector.ops.contract import REDUCTION
from tvm_iree_ext.vector.ops.structured import CONVOLUTIONS, is_structured, nest_of
from tvm_iree_ext.vector.programs.vector_program import VectorProgram

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
    program: VectorProgram
    why: str

    @property
    def text(self) -> str:
        """The program in the manner of the article's listings."""
        return str(self.program)

    @property
    def thread(self) -> str:
        """The part of the text for one thread; all of it before there are threads."""
        lines = self.text.splitlines()
        starts = [place for place, line in enumerate(lines) if line.endswith("mapping(thread) {")]
        if not starts:
            return self.text
        head = lines[starts[0]]
        margin = head[: len(head) - len(head.lstrip())]
        body = takewhile(lambda line: line != f"{margin}}}", lines[starts[0] + 1 :])
        return dedent("\n".join(body))

    @property
    def counts(self) -> dict[str, Counts]:
        """How many ops of each kind are before, in and after the loop."""
        return self.program.counts()

    @property
    def carried(self) -> list[str]:
        """Types carried by the innermost loops."""
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
    program: VectorProgram,
    target: patterns.RegisterWidths | VectorProcessor | None = None,
    tiling: patterns.Tiling | None = None,
) -> Iterator[Stage]:
    """The program after each pattern, in order.

    Args:
        program: structured ops on tensors.
        target: what ops are cut for: a processor, or a width of registers; 128 bits by default, as
            in the article.
        tiling: by default that of :func:`tiling_of`.

    Raises:
        VectorError: where a pattern does not apply, such as to an extent that is not known.
    """
    if target is None or isinstance(target, patterns.RegisterWidths):
        registers = target or patterns.RegisterWidths()
    else:
        registers = patterns.RegisterWidths(target.bits, target.memory_bits)
    tiles = tiling or tiling_of(program, target or registers)
    steps: dict[str, Callable[[VectorProgram], VectorProgram]] = {
        "tiled": lambda p: patterns.tile(p, tiles),
        "vectorised": patterns.vectorize,
        "unrolled": lambda p: patterns.unroll(p, registers),
        "unit_dims_dropped": patterns.drop_unit_dims,
        "decomposed": patterns.decompose_slices,
        "hoisted": patterns.hoist_transfers,
        "outer_products": lambda p: patterns.canonicalize(patterns.lower_contracts(p)),
        "lowered": lower,
    }
    yield Stage(SOURCE, program, _WHY[SOURCE])
    for name, step in steps.items():
        program = step(program)
        yield Stage(name, program, _WHY[name])


def lower(program: VectorProgram) -> VectorProgram:
    """Lower n-D vectors to ops on one register, and drop ops that have no use."""
    for step in (
        patterns.lower_contracts,
        patterns.lower_outer_products,
        patterns.lower_reductions,
        patterns.lower_transfers,
        patterns.lower_transposes,
        patterns.decompose_slices,
        patterns.lower_rows,
        patterns.lower_slices,
        patterns.canonicalize,
    ):
        program = step(program)
    return program


# Of the article: workgroups of 8 x 32 (of a convolution, 4 rows of 4 columns of 32), threads of 4
# rows (of a convolution, 2 columns) of one register each, steps of 4 along a sum and of 1 along a
# window.
_GROUP, _WINDOW_GROUP = (8, 32), (4, 4, 32)
_ROWS, _COLUMNS, _STEP = 4, 2, 4


def tiling_of(
    program: VectorProgram, target: patterns.RegisterWidths | VectorProcessor
) -> patterns.Tiling:
    """Tiles for the last result of a program.

    For a width of registers they are the article's: some rows of one register each.  For a
    processor they are those of least cost whose sums and operands fit into its registers.
    """
    results = [v for v in program.body.terminator.operands if v.op and is_structured(v.op)]
    sums = [op for op in program.walk() if is_structured(op) and REDUCTION in nest_of(op).iterators]
    if not results:
        return patterns.Tiling((), ())
    result, is_window = results[-1], any(op.name in CONVOLUTIONS for op in sums)
    if not result.rank:
        raise VectorError(
            "E_NO_LEGAL_SHAPE",
            f"{program.name}: a result is {result.type}, one number; expected dims to tile, of 1 if"
            " need be",
        )
    group = (_WINDOW_GROUP if is_window else _GROUP)[-result.rank :]
    group = (1,) * (result.rank - len(group)) + group
    rows, step = (_COLUMNS, 0) if is_window else (_ROWS, _STEP)
    if isinstance(target, patterns.RegisterWidths):
        columns = max(1, target.vector_bits // bits(result.dtype))
    else:
        depth = step or _channels(sums[-1])
        best = contraction_tile(
            group[-2] if result.rank > 1 else 1, group[-1], depth, result.dtype, target
        )
        rows, columns, step = best.rows, best.columns, best.depth if step else 0
    wanted = [1] * result.rank
    wanted[-2:] = [rows, columns][-result.rank :]
    thread = [_least(one, extent) for one, extent in zip(wanted, result.shape, strict=True)]
    outer = [-(-size // one) * one for size, one in zip(group, thread, strict=True)]
    reduced = {nest_of(op).iterators.count(REDUCTION) for op in sums}
    steps = (1, 1, 0) if is_window else (step,) if reduced == {1} else ()
    return patterns.Tiling(tuple(outer), tuple(thread), steps)


def _channels(op: Operation) -> int:
    """The extent of the sum of a convolution that is no window."""
    lhs, rhs, _ = nest_of(op).maps
    (dim,) = set(lhs.used) & set(rhs.used)
    extent = op.operands[0].shape[lhs.dims.index(dim)]
    return extent if isinstance(extent, int) else 1


def _least(size: int, extent: object) -> int:
    return min(size, extent) if isinstance(extent, int) else size
