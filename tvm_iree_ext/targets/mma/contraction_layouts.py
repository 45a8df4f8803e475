"""From a kind of matrix instruction and tile counts to the layouts of a contraction's operands.

A contraction is a nest of loops, each of which is a batch, M, N or K loop.  The instruction covers
the innermost M, N and K loop (with several blocks, also the innermost batch loop); subgroups and
batches cover the rest:

    batch[i] = ceil(ceil(bound[i] / subgroups[i]) / instruction[i])

An operand's layout over the whole nest is projected onto the operand's own dimensions.  Subgroups
that differ along a loop that an operand lacks hold the same part of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm, prod

import numpy as np

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout.distribute import held_indices
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.transform import apply
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand

ROLES = "bmnk"
_UNCHAINED = {"virtual_sparse", "scaled", "opaque"}
_OF_OPERAND = {"lhs": "bmk", "rhs": "bkn", "acc": "bmn"}


@dataclass(frozen=True)
class ContractionLayouts:
    """The layouts of a workgroup's operands; ``rhs`` is None where it stays in shared memory.

    ``batch`` counts the instructions along each loop: their product is what one subgroup issues.
    """

    lhs: NestedLayout
    rhs: NestedLayout | None
    acc: NestedLayout
    batch: Ints
    subgroups: int


def contraction_layouts(
    mma: Mma,
    roles: str,
    bounds: Sequence[int],
    subgroups: Sequence[int],
    *,
    lhs: Sequence[int] | None = None,
    rhs: Sequence[int] | None = None,
    acc: Sequence[int] | None = None,
    column_major: bool = False,
    counted: Sequence[int] | None = None,
) -> ContractionLayouts:
    """The operands' layouts for one workgroup.

    Args:
        mma: the instruction.
        roles: of each loop, outermost first: ``b``, ``m``, ``n`` or ``k``.
        bounds: what the workgroup covers of each loop.
        subgroups: how many subgroups share each loop; they are counted as ``counted`` says.
            Of an instruction that several subgroups share, how many such groups; then those of the
            innermost M loop are counted fastest, since hardware wants them adjacent.
        lhs, rhs, acc: the loops of each operand's dimensions; by default batch, then M and K,
            K and N, M and N.  The transposed operand of ``[n, k]`` names them
            so, and needs no other instruction.
        column_major: exchange A and B in the call, so that the accumulator is transposed.
        counted: the loops in the order in which subgroups are counted, the last the fastest; by
            default as they come.

    Raises:
        LayoutError: when the nest is none of a contraction, or the instruction cannot do it.

    >>> from tvm_iree_ext.targets.mma.mma_table import mma_kind
    >>> mma = mma_kind("MFMA_F32_32x32x8_F16")
    >>> layouts = contraction_layouts(mma, "mnk", (128, 128, 64), (2, 2, 1))
    >>> layouts.batch, layouts.acc.outer_tile, layouts.acc.thread_strides
    ((2, 2, 8), (4, 1), (32, 1))
    """
    _check(mma, roles, bounds, subgroups)
    if column_major and not mma.column_major:
        raise LayoutError(f"{mma.name}: its A and B are not each other's transposes")
    inner = {role: roles.rfind(role) for role in ROLES}
    native = [1] * len(roles)
    for role, extent in (("b", mma.blocks), ("m", mma.m), ("n", mma.n), ("k", mma.k)):
        if inner[role] >= 0:
            native[inner[role]] = extent
    batch = tuple(
        ceil_div(ceil_div(bound, count), extent)
        for bound, count, extent in zip(bounds, subgroups, native, strict=True)
    )
    order = list(range(len(roles))) if counted is None else list(counted)
    if sorted(order) != list(range(len(roles))):
        raise LayoutError(f"{mma.name}: counted is {order}; expected each of the loops")
    strides = _subgroup_strides(mma, subgroups, inner["m"], order)
    nest = _Nest(mma, roles, batch, tuple(subgroups), strides, inner)
    maps = {"lhs": lhs, "rhs": rhs, "acc": acc}
    made: dict[str, NestedLayout | None] = {}
    for name, operand in (("lhs", mma.lhs), ("rhs", mma.rhs), ("acc", mma.acc)):
        own = [loop for role in _OF_OPERAND[name] for loop in _loops(roles, role)]
        given = maps[name]
        dims = own if given is None else list(given)
        if sorted(dims) != sorted(own):
            raise LayoutError(f"{mma.name}: {name} has the loops {dims}; it needs each of {own}")
        swap = column_major and name == "acc"
        made[name] = nest.operand(operand, dims, swap=swap) if operand else None
    return ContractionLayouts(**made, batch=batch, subgroups=nest.subgroups())  # type: ignore[arg-type]


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-dividend // divisor)


def _loops(roles: str, role: str) -> list[int]:
    return [loop for loop, its in enumerate(roles) if its == role]


@dataclass(frozen=True)
class _Nest:
    mma: Mma
    roles: str
    batch: Ints
    counts: Ints
    strides: Ints
    inner: dict[str, int]

    def subgroups(self) -> int:
        return prod(self.counts) * self.mma.num_subgroups

    def operand(
        self, operand: MmaOperand, dims: Sequence[int], *, swap: bool = False
    ) -> NestedLayout:
        """The layout over the whole nest, seen through the operand's ``dims``."""
        rank = len(self.roles)
        outer, thread, element = [1] * rank, [1] * rank, [1] * rank
        thread_strides, subgroups = [0] * rank, list(self.counts)
        batch = list(self.batch)
        names = list(operand.dims)
        if swap:  # M's digits for N, and N's for M
            names = [{"M": "N", "N": "M"}.get(name, name) for name in names]
        for at, name in enumerate(names):
            loop = self.inner[name.lower()]
            if loop < 0:
                continue  # the one block of a contraction without a batch
            outer[loop], thread[loop] = operand.outer[at], operand.thread[at]
            thread_strides[loop], element[loop] = operand.tstrides[at], operand.element[at]
            if self.mma.kind == "warpgroup" and name == "N":
                # The repeats of N are slower than the rows: batch digits, which they extend.
                batch[loop] *= outer[loop]
                outer[loop] = 1
            subgroups[loop] *= operand.subgroup[at]
        if self.mma.num_subgroups > 1 and "M" not in names:
            raise LayoutError(f"{self.mma.name}: an operand without M is not in registers")
        layout = NestedLayout(
            tuple(subgroups), tuple(batch), tuple(outer), tuple(thread), tuple(element),
            self.strides, tuple(thread_strides),
        )  # fmt: skip
        return apply(layout, dims)


def _subgroup_strides(mma: Mma, counts: Sequence[int], m_loop: int, order: list[int]) -> Ints:
    if mma.num_subgroups > 1:  # adjacent ones share an instruction, along M
        order.remove(m_loop)
        order.append(m_loop)
    strides, span = [0] * len(counts), 1
    for loop in reversed(order):
        strides[loop] = span
        span *= counts[loop] * (mma.num_subgroups if loop == m_loop else 1)
    return tuple(strides)


def _check(mma: Mma, roles: str, bounds: Sequence[int], subgroups: Sequence[int]) -> None:
    if mma.lhs is None or mma.acc is None:
        raise LayoutError(f"{mma.name}: which lane holds which element is not documented")
    if mma.kind == "scaled":
        raise LayoutError(f"{mma.name}: its K is two dimensions; a contraction here has one")
    if mma.lhs.element_split_lanes > 1:
        raise LayoutError(f"{mma.name}: adjacent lanes share a run of K, which no layout says")
    if set(roles) - set(ROLES) or not {"m", "n", "k"} <= set(roles):
        raise LayoutError(f"{mma.name}: roles {roles!r}; expected m, n, k and any of {ROLES!r}")
    if not len(roles) == len(bounds) == len(subgroups):
        raise LayoutError(
            f"{mma.name}: {len(roles)} roles, {len(bounds)} bounds, {len(subgroups)} counts of"
            " subgroups; expected one for each loop"
        )
    if min(*bounds, *subgroups) < 1:
        raise LayoutError(f"{mma.name}: bounds {bounds} and subgroups {subgroups} start at 1")
    if mma.blocks > 1 and "b" not in roles:
        raise LayoutError(f"{mma.name}: {mma.blocks} blocks need a batch loop")


@dataclass(frozen=True)
class Chain:
    """How the accumulator of a product becomes the left input of the next, in its registers.

    ``exact`` when the same lane holds the same elements; else the rows of the next right input
    must be fetched in another order of K, which the sum does not see.
    """

    exact: bool
    column_major: bool


def chain(first: Mma, second: Mma) -> Chain | None:
    """Whether ``second`` can take ``first``'s accumulator as its A without moving data.

    Row-major accumulators are tried first, then those of both products with A and B exchanged.

    Returns:
        None when lanes would have to exchange elements.
    """
    if first.acc is None or second.lhs is None or first.m != second.m:
        return None
    if first.subgroup_size != second.subgroup_size or first.num_subgroups != second.num_subgroups:
        return None
    if not set(first.arch) & set(second.arch):
        return None
    if first.blocks > 1 or second.blocks > 1 or _UNCHAINED & {first.kind, second.kind}:
        return None
    found = [
        Chain(exact, column_major)
        for column_major in (False, True)
        if not column_major or (first.column_major and second.column_major)
        if (exact := _feeds(first, second, column_major)) is not None
    ]
    return max(found, key=lambda one: one.exact, default=None)


def _feeds(first: Mma, second: Mma, column_major: bool) -> bool | None:
    shared = lcm(first.n, second.k)
    ones = (1, 1, 1)
    produced = contraction_layouts(
        first, "mnk", (first.m, shared, first.k), ones, column_major=column_major
    ).acc
    taken = contraction_layouts(second, "mnk", (second.m, second.n, shared), ones).lhs
    have, want = (
        held_indices(layout, first.num_subgroups, first.subgroup_size).reshape(
            first.num_subgroups * first.subgroup_size, -1
        )
        for layout in (produced, taken)
    )
    if have.shape != want.shape:
        return None
    if np.array_equal(have, want):
        return True
    if not second.k_order_free and second.rhs is not None:
        return None
    rows = [np.sort(held // shared, axis=1) for held in (have, want)]
    # One permutation of K serves all lanes if those that share columns here share them there.
    groups = [_same(np.sort(held % shared, axis=1)) for held in (have, want)]
    alike = np.array_equal(rows[0], rows[1]) and np.array_equal(groups[0], groups[1])
    return False if alike else None


def _same(rows: np.ndarray) -> np.ndarray:
    """For each row, the first that equals it."""
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)]
