"""Vectorization: structured ops on small static tensors become ops on vectors.

before:  acc += a * b                                        on tensors 4x4
after:   va = read a;  vb = read b;  vc = read acc
         vd = contract va, vb, vc;  acc' = write vd          on vectors 4x4

One rule covers all nests, as each is a generic op: operands are read, the body is computed on
vectors of the shape of the iterations, the results are written.  A nest that multiplies and
accumulates is a contraction with the nest's own maps; where these are no projected permutations
(a convolution), its windows are unrolled.
"""

from collections.abc import Sequence

from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.combining_kinds import KINDS, elementwise_name
from tvm_iree_ext.vector.ir.core import Block, Operation, Value
from tvm_iree_ext.vector.ir.vector_types import ScalarType, VectorType, vector
from tvm_iree_ext.vector.ops.contract import PARALLEL, REDUCTION
from tvm_iree_ext.vector.ops.structured import StructuredNest, extent_of, is_structured, nest_of
from tvm_iree_ext.vector.patterns.canonicalization import clean, fold_slices_into_transfers
from tvm_iree_ext.vector.patterns.padding import vectorize_pad
from tvm_iree_ext.vector.patterns.rewriter import apply, sweep
from tvm_iree_ext.vector.patterns.windows import vectorize_windows
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram


def vectorize(program: VectorProgram) -> VectorProgram:
    """Replace all structured ops by ops on vectors, and read tiles where they are cut from.

    Raises:
        VectorError: E_DYNAMIC_SHAPE for an extent that is known at run time only, E_MAP for a nest
            that is no projected permutation and no convolution, E_NO_REDUCTION for a body that
            reduces in no known way.
    """
    changed = program.clone()
    sweep(changed, vectorize_op)
    apply(changed, *fold_slices_into_transfers())
    clean(changed)
    changed.verify()
    return changed


def vectorize_op(op: Operation, b: Builder) -> bool:
    """The pattern: one structured op or pad."""
    if op.name == "tensor.pad":
        op.replace_by(vectorize_pad(b, op))
        return True
    if not is_structured(op):
        return False
    nest = nest_of(op)
    sizes = extent_of(nest, [value.shape for value in op.operands])
    for dim, size in enumerate(sizes):
        if not isinstance(size, int):
            raise op.error("E_DYNAMIC_SHAPE", f"d{dim} of the nest has the extent {size}")
    if op.name == "linalg.fill":
        made = [_fill(op, b)]
    elif all(map.is_projected_permutation() for map in nest.maps):
        made = _contract(op, b, nest) or _compute(op, b, nest, sizes)
    else:
        made = [vectorize_windows(op, b, nest, sizes)]
    op.replace_by(*made)
    return True


def read(
    b: Builder, memory: Value, map: AffineMap | None = None, shape: Sequence[int] = ()
) -> Value:
    """All of a tensor as a vector, its dims as a map gives them."""
    shape = shape if map is not None else memory.shape
    return b.transfer_read(
        memory,
        [0] * memory.rank,
        shape,
        permutation_map=map or AffineMap.identity(memory.rank),
        in_bounds=[True] * len(shape),
    )


def write(b: Builder, value: Value, memory: Value, map: AffineMap | None = None) -> Value:
    """A tensor that is overwritten as a whole."""
    made = b.transfer_write(
        value,
        memory,
        [0] * memory.rank,
        permutation_map=map or AffineMap.identity(memory.rank),
        in_bounds=[True] * value.rank,
    )
    assert made is not None
    return made


def _fill(op: Operation, b: Builder) -> Value:
    value, out = op.operand("value"), op.operand("out")
    if value.constant is not None:
        lanes = b.constant(value.constant, vector(out.shape, out.dtype))
    else:
        lanes = b.broadcast(value, out.shape)
    return write(b, lanes, out)


def _contract(op: Operation, b: Builder, nest: StructuredNest) -> list[Value] | None:
    """A nest that multiplies and accumulates, where a contraction can say it."""
    product = _product_of(op)
    if product is None:
        return None
    numbers, kind = product
    lhs, rhs = (set(nest.maps[n].used) for n in numbers)
    reduced = {dim for dim, it in enumerate(nest.iterators) if it == REDUCTION}
    if not reduced & lhs & rhs or lhs | rhs != set(range(len(nest.iterators))):
        return None
    out = op.operands[-1]
    made = b.contract(
        read(b, op.operands[numbers[0]]),
        read(b, op.operands[numbers[1]]),
        read(b, out),
        indexing_maps=[nest.maps[numbers[0]], nest.maps[numbers[1]], nest.maps[-1]],
        iterator_types=nest.iterators,
        kind=kind,
    )
    return [write(b, made, out)]


def _product_of(op: Operation) -> tuple[tuple[int, int], str] | None:
    """The operands that a nest multiplies and the kind by which it folds the products."""
    if op.name != "linalg.generic":
        return (0, 1), "add"
    if len(op.results) != 1:
        return None
    folded = _fold_of(op, 0)
    if (
        folded is None
        or folded[1].op is None
        or folded[1].op.name not in ("arith.mulf", "arith.muli")
    ):
        return None
    factors = [_unextended(value) for value in folded[1].op.operands]
    inputs = op.body.arguments[: len(op.group("ins"))]
    if any(one not in inputs for one in factors) or factors[0].dtype != factors[1].dtype:
        return None
    return (factors[0].number, factors[1].number), folded[0]


def _unextended(value: Value) -> Value:
    op = value.op
    return op.operands[0] if op is not None and op.name in ("arith.extf", "arith.extsi") else value


def _fold_of(op: Operation, number: int) -> tuple[str, Value] | None:
    """Kind and x of a body that yields ``kind(out, x)`` with x free of out; None for any other."""
    out = op.body.arguments[len(op.group("ins")) + number]
    value = op.body.terminator.operands[number]
    made = value.op
    if made is None or made.parent is not op.body or made.operands.count(out) != 1:
        return None
    if out.use_count != 1:
        return None
    names = {elementwise_name(kind, value.dtype): kind for kind in reversed(KINDS)}
    if made.name not in names:
        return None
    (other,) = (one for one in made.operands if one is not out)
    return names[made.name], other


def _compute(op: Operation, b: Builder, nest: StructuredNest, sizes: list[int]) -> list[Value]:
    """A nest with any body: computed on vectors of its shape, then reduced where it reduces."""
    reduced = tuple(dim for dim, it in enumerate(nest.iterators) if it == REDUCTION)
    inputs = len(op.group("ins"))
    body = _Body(op, b, nest, sizes)
    made = []
    for number, out in enumerate(op.group("outs")):
        map = nest.maps[inputs + number]
        parallel = [dim for dim, it in enumerate(nest.iterators) if it == PARALLEL]
        order = AffineMap.of(out.rank, [map.used.index(dim) for dim in parallel])
        if not reduced:
            value = body.vector(op.body.terminator.operands[number])
        else:
            folded = _fold_of(op, number)
            if folded is None:
                raise op.error(
                    "E_NO_REDUCTION",
                    f"value {number} that the body yields is no fold of its output with something",
                )
            kind, element = folded
            acc = read(b, out, order, [sizes[dim] for dim in parallel])
            value = b.multi_reduction(body.vector(element), acc, reduced, kind=kind)
        made.append(write(b, value, out, order))
    return made


class _Body:
    """The body of a nest on vectors."""

    def __init__(self, op: Operation, b: Builder, nest: StructuredNest, sizes: list[int]) -> None:
        self._op, self._b, self._nest, self._sizes = op, b, nest, tuple(sizes)
        self._made: dict[Value, Value] = {}

    def vector(self, value: Value) -> Value:
        """The vector of a scalar of the body; what comes from outside is the same in all lanes."""
        if value not in self._made:
            self._made[value] = self._make(value)
        return self._made[value]

    def _make(self, value: Value) -> Value:
        b, sizes, op = self._b, self._sizes, value.op
        if isinstance(value.owner, Block) and value.owner is self._op.body:
            memory, map = self._op.operands[value.number], self._nest.maps[value.number]
            axes = [map.used.index(d) if d in map.used else None for d in range(len(sizes))]
            return read(b, memory, AffineMap.of(memory.rank, axes), sizes)
        if value.constant is not None:
            return b.constant(value.constant, vector(sizes, value.dtype))
        if op is None or op.parent is not self._op.body:
            assert isinstance(value.type, ScalarType | VectorType)
            return b.broadcast(value, sizes)
        operands = [self.vector(one) for one in op.operands]
        names = zip(op.definition.operands, operands, strict=True)
        return b.create(op.name, dict(names), op.attributes).result
