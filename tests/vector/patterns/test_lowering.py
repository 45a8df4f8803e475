"""Lowering of contractions, outer products, transposes, reductions, transfers, gathers."""

import itertools

import numpy as np
import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector import AffineMap
from tvm_iree_ext.vector.patterns import (
    canonicalize,
    lower_contracts,
    lower_gathers,
    lower_outer_products,
    lower_reductions,
    lower_rows,
    lower_transfers,
    lower_transposes,
)

V = vector.vector
MATMUL = ["(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"]
STRATEGIES = ["outerproduct", "dot", "parallel_arith"]


def one(build, *types):
    with vector.program("one") as b:
        values = [b.argument(f"x{n}", type) for n, type in enumerate(types)]
        made = build(b, *values)
        b.returns(*([made] if made is not None else []))
    return b.program


def contract(maps, sizes, reduced, dtype="f32", acc=None, kind="add"):
    parsed = [AffineMap.parse(map) for map in maps]
    kinds = ["reduction" if d in reduced else "parallel" for d in range(len(sizes))]
    types = [
        V([sizes[d] for d in map.used], t) if map.used else vector.scalar(t)
        for map, t in zip(parsed, (dtype, dtype, acc or dtype), strict=True)
    ]
    return one(
        lambda b, *v: b.contract(*v, indexing_maps=maps, iterator_types=kinds, kind=kind), *types
    )


def rows(program):
    """All that contractions become, down to rows."""
    for step in (lower_outer_products, lower_transposes, lower_rows, canonicalize):
        program = step(program)
    return program


def test_the_three_ways_of_a_matmul(same):
    program = contract(MATMUL, (4, 4, 4), [2])
    outer = same(program, lower_contracts(program))
    assert (outer.of("outerproduct 4x4"), outer.of("transpose")) == (4, 1)
    fma = same(program, lower_outer_products(lower_contracts(program)))
    assert [fma.of(one) for one in ("fma 4", "splat 4", "extract ->scalar", "transpose")] == [
        16,
        16,
        16,
        0,
    ]
    dot = same(program, lower_contracts(program, "dot"))
    assert [dot.of(one) for one in ("mulf 4", "reduction 4", "transpose")] == [16, 16, 1]
    arith = same(program, lower_contracts(program, "parallel_arith"))
    assert arith.of("fma 4x4") == 4


CONTRACTIONS = {
    "matmul": (MATMUL, (2, 4, 3), [2]),
    "transposed": (
        ["(m, n, k) -> (k, m)", "(m, n, k) -> (n, k)", "(m, n, k) -> (n, m)"],
        (2, 4, 3),
        [2],
    ),
    "row": (["(n, k) -> (k)", "(n, k) -> (k, n)", "(n, k) -> (n)"], (4, 3), [1]),
    "column": (["(m, k) -> (m, k)", "(m, k) -> (k)", "(m, k) -> (m)"], (4, 3), [1]),
    "dot": (["(k) -> (k)", "(k) -> (k)", "(k) -> ()"], (5,), [0]),
    "batch": (
        ["(b, m, n, k) -> (b, m, k)", "(b, m, n, k) -> (b, k, n)", "(b, m, n, k) -> (b, m, n)"],
        (2, 3, 4, 2),
        [3],
    ),
    "batch alone": (["(b, k) -> (b, k)", "(b, k) -> (k, b)", "(b, k) -> (b)"], (4, 3), [1]),
    "batch last": (
        ["(m, b, k) -> (m, b, k)", "(m, b, k) -> (b, k)", "(m, b, k) -> (m, b)"],
        (2, 4, 3),
        [2],
    ),
    "two sums": (
        ["(m, n, k, l) -> (l, m, k)", "(m, n, k, l) -> (k, n, l)", "(m, n, k, l) -> (m, n)"],
        (2, 4, 3, 2),
        [2, 3],
    ),
    "a sum of one side": (
        ["(m, n, k, l) -> (m, k, l)", "(m, n, k, l) -> (k, n)", "(m, n, k, l) -> (m, n)"],
        (2, 3, 2, 2),
        [2, 3],
    ),
    "two rows": (
        ["(m, p, n, k) -> (m, p, k)", "(m, p, n, k) -> (k, n)", "(m, p, n, k) -> (p, n, m)"],
        (2, 2, 3, 2),
        [3],
    ),
}


@pytest.mark.parametrize("case", CONTRACTIONS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_contractions_of_any_maps(case, strategy, same):
    program = contract(*CONTRACTIONS[case])
    lowered = rows(lower_contracts(program, strategy))
    same(program, lowered)
    assert not [op for op in lowered.walk() if op.name in ("vector.contract", "vector.transpose")]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("dtype", "acc", "kind"),
    [
        ("i8", "i32", "add"),
        ("f16", "f32", "add"),
        ("f32", None, "maximumf"),
        ("i32", None, "minsi"),
    ],
)
def test_contractions_of_other_types_and_kinds(strategy, dtype, acc, kind, same):
    program = contract(MATMUL, (2, 4, 3), [2], dtype, acc, kind)
    counts = same(program, rows(lower_contracts(program, strategy)))
    assert counts.of("fma") == (
        0 if strategy == "dot" or kind != "add" or dtype == "i8" else counts.of("fma")
    )


def test_an_outer_product_without_acc_multiplies(same):
    program = one(lambda b, x, y: b.outerproduct(x, y), V((3,)), V((4,)))
    counts = same(program, lower_outer_products(program))
    assert (counts.of("mulf 4"), counts.of("fma 4")) == (3, 0)
    program = one(
        lambda b, x, y, z: b.outerproduct(x, y, z), V((3,)), vector.scalar("f32"), V((3,))
    )
    assert same(program, lower_outer_products(program)) == {"splat 3": 1, "fma 3": 1}


def test_the_three_ways_of_a_transpose(same):
    program = one(lambda b, x: b.transpose(x, (1, 0)), V((4, 4)))
    assert same(program, lower_transposes(program, "elementwise")).of("extract ->scalar") == 16
    shuffled = lower_transposes(program, "shuffle")
    assert same(program, shuffled) == {
        "shape_cast 4x4->16": 1,
        "shuffle 16": 1,
        "shape_cast 16->4x4": 1,
    }
    (shuffle,) = shuffled.find("vector.shuffle")
    assert list(shuffle.attributes["mask"]) == [
        0,
        4,
        8,
        12,
        1,
        5,
        9,
        13,
        2,
        6,
        10,
        14,
        3,
        7,
        11,
        15,
    ]


@pytest.mark.parametrize(("lanes", "rounds"), [(2, 1), (4, 2), (8, 3), (16, 4)])
def test_a_network_has_log_n_rounds_of_n_shuffles(lanes, rounds, same):
    program = one(lambda b, x: b.transpose(x, (1, 0)), V((lanes, lanes)))
    counts = same(program, lower_transposes(program))
    assert counts.of(f"shuffle {lanes}") == lanes * rounds


@pytest.mark.parametrize("strategy", ["elementwise", "shuffle", "network"])
@pytest.mark.parametrize("shape", [(3, 5), (2, 4, 4), (4, 3, 4), (2, 1, 3, 2)])
def test_transposes_of_any_rank(strategy, shape, same):
    for permutation in itertools.permutations(range(len(shape))):
        program = one(lambda b, x, p=permutation: b.transpose(x, p), V(shape))
        lowered = lower_transposes(program, strategy)
        counts = same(program, lowered)
        assert counts.of("transpose") == 0
        if permutation[-1] == len(shape) - 1:
            assert counts.of("shuffle") == 0


def test_the_two_ways_of_a_reduction(same):
    program = one(lambda b, x, acc: b.multi_reduction(x, acc, [1]), V((4, 8)), V((4,)))
    assert same(program, lower_reductions(program, "inner_reduction")).of("reduction 8") == 4
    counts = same(program, lower_reductions(program, "inner_parallel"))
    assert (counts.of("addf 4"), counts.of("transpose")) == (8, 1)
    program = one(lambda b, x, acc: b.multi_reduction(x, acc, [0]), V((4, 8)), V((8,)))
    counts = same(program, lower_reductions(program))
    assert (counts.of("addf 8"), counts.of("transpose")) == (4, 0)


@pytest.mark.parametrize("strategy", ["inner_reduction", "inner_parallel", "auto"])
@pytest.mark.parametrize("dims", [[0], [1], [2], [0, 2], [2, 1], [0, 1, 2]])
@pytest.mark.parametrize(("kind", "dtype"), [("add", "f32"), ("maximumf", "f32"), ("xor", "i32")])
def test_reductions_of_any_dims(strategy, dims, kind, dtype, same):
    shape = (3, 4, 2)
    kept = [e for d, e in enumerate(shape) if d not in dims]
    acc = V(kept, dtype) if kept else vector.scalar(dtype)
    program = one(lambda b, x, a: b.multi_reduction(x, a, dims, kind=kind), V(shape, dtype), acc)
    assert same(program, lower_reductions(program, strategy)).of("multi_reduction") == 0


def test_strategies_that_do_not_exist_are_refused():
    program = one(lambda b, x: x + x, V((4,)))
    for lower in (lower_contracts, lower_transposes, lower_reductions):
        with pytest.raises(ValueError, match="strategy is 'fast'; expected one of"):
            lower(program, "fast")
    with pytest.raises(ValueError, match="masks is 'fast'; expected one of lanes, conditions"):
        lower_transfers(program, "fast")


MAPS = {
    "row": ("(i, j) -> (j)", (5,)),
    "column": ("(i, j) -> (i)", (3,)),
    "plain": ("(i, j) -> (i, j)", (3, 5)),
    "permuted": ("(i, j) -> (j, i)", (5, 3)),
    "repeated": ("(i, j) -> (0, j)", (2, 5)),
    "repeated last": ("(i, j) -> (i, 0)", (3, 2)),
    "repeated and permuted": ("(i, j) -> (j, 0, i)", (5, 2, 3)),
    "all repeated": ("(i, j) -> (0)", (4,)),
}


@pytest.mark.costly
@pytest.mark.parametrize("case", MAPS)
@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
@pytest.mark.parametrize("masks", ["lanes", "conditions"])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("has_mask", [True, False])
def test_reads_of_any_map(case, memory, masks, inside, has_mask, same):
    map, shape = MAPS[case]
    dims = AffineMap.parse(map).dims
    extents = [shape[dims.index(d)] for d in range(2) if d in dims]
    types = [memory((7, 9)), vector.scalar("index")]
    j = 2 if inside or 1 not in dims else 6
    if has_mask and extents:
        types.append(V(extents, "i1"))

    def build(b, m, i, mask=None):
        flags = [inside or d is None for d in dims]
        return b.transfer_read(
            m, [i, j], shape, permutation_map=map, padding=7.0, in_bounds=flags, mask=mask
        )

    program = one(build, *types)
    lowered = lower_transfers(program, masks)
    for at in (0, 3) if inside or 0 not in dims else (0, 3, 5, 7, 9):
        same(program, lowered, x1=at)
    for op in lowered.find("vector.transfer_read"):
        assert op.result.rank <= 1
        assert memory is vector.tensor
        assert all(op.attributes["in_bounds"])
        assert not op.group("mask") or masks == "lanes"


@pytest.mark.parametrize("case", ["row", "column", "plain", "permuted"])
@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
@pytest.mark.parametrize("masks", ["lanes", "conditions"])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("has_mask", [True, False])
def test_writes_of_any_map(case, memory, masks, inside, has_mask, same):
    map, shape = MAPS[case]
    dims = AffineMap.parse(map).dims
    extents = [shape[dims.index(d)] for d in range(2) if d in dims]
    types = [memory((7, 9)), vector.scalar("index"), V(shape)]
    j = 2 if inside or 1 not in dims else 6
    if has_mask:
        types.append(V(extents, "i1"))

    def build(b, m, i, v, mask=None):
        flags = [inside] * len(dims)
        return b.transfer_write(v, m, [i, j], permutation_map=map, in_bounds=flags, mask=mask)

    program = one(build, *types)
    lowered = lower_transfers(program, masks)
    for at in (0, 3) if inside or 0 not in dims else (0, 3, 5, 7, 9):
        same(program, lowered, x1=at)
    for op in lowered.find("vector.transfer_write"):
        assert op.operand("vector").rank <= 1
        assert memory is vector.tensor
        assert all(op.attributes["in_bounds"])


def test_a_row_that_is_inside_is_a_plain_load_and_store(same):
    def build(b, m):
        v = b.transfer_read(m, [1, 0], (4,), in_bounds=[True])
        b.transfer_write(v + v, m, [2, 0], in_bounds=[True])

    program = one(build, vector.buffer((3, 4)))
    assert same(program, lower_transfers(program)) == {"load 4": 1, "addf 4": 1, "store 4": 1}


def test_a_buffer_with_strides_is_read_element_by_element(same):
    program = one(
        lambda b, m: b.transfer_read(m, [1, 0], (3,), in_bounds=[True]),
        vector.buffer((3, 4), strides=[8, 2]),
    )
    assert lower_transfers(program).find("memref.load")


def test_extents_that_are_not_known(same):
    program = one(lambda b, m: b.transfer_read(m, [3, 2], (4, 4)), vector.tensor(("?", "n")))
    same(program, lower_transfers(program))


@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
@pytest.mark.parametrize("base", [(30,), (3, 10)])
def test_gathers_lane_by_lane(memory, shape, base, same):
    def build(b, m, mask, other):
        count = int(np.prod(shape))
        at = b.constant((np.arange(count) * 5 % 11).reshape(shape), V(shape, "i32"))
        return b.gather(m, [0] * (len(base) - 1) + [3], at, mask, other)

    program = one(build, memory(base), V(shape, "i1"), V(shape))
    lowered = lower_gathers(program)
    same(program, lowered)
    assert not lowered.find("vector.gather")


def test_scatters_lane_by_lane_keep_the_order(same):
    def build(b, m, mask, v):
        at = b.constant([[1, 3, 1], [15, 3, 3]], V((2, 3), "i64"))
        b.scatter(m, [0, 2], at, mask, v)

    program = one(build, vector.buffer((3, 7)), V((2, 3), "i1"), V((2, 3)))
    lowered = lower_gathers(program)
    for _ in range(3):
        same(program, lowered, x1=np.random.default_rng(1).random((2, 3)) < 0.7)
    same(program, lowered, x1=np.ones((2, 3), bool))
    assert not lowered.find("vector.scatter")
