"""Folds, each on its own and by chains of random ops, which must mean the same."""

from math import prod

import numpy as np
import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector.patterns import (
    canonicalize,
    decompose_slices,
    drop_unit_dims,
    lower_rows,
    lower_slices,
    lower_transposes,
)

V = vector.vector


def one(build, *types):
    with vector.program("one") as b:
        values = [b.argument(f"x{n}", type) for n, type in enumerate(types)]
        b.returns(build(b, *values))
    return b.program


def random_op(b, rng, values):
    """Some op on some vectors."""
    v = values[int(rng.integers(len(values)))]
    like = [w for w in values if w.shape == v.shape]
    rank = v.rank
    name = rng.choice(
        [
            "extract",
            "insert",
            "slice",
            "put",
            "transpose",
            "broadcast",
            "shape_cast",
            "shuffle",
            "add",
            "splat",
        ]
    )
    corner = [int(rng.integers(e)) for e in v.shape]
    sizes = [int(rng.integers(1, e - c + 1)) for e, c in zip(v.shape, corner, strict=True)]
    if name == "extract":
        return b.extract(v, corner[: int(rng.integers(rank + 1))])
    if name == "splat":
        return b.broadcast(b.extract(v, corner), [2, 3])
    if name == "insert":
        count = int(rng.integers(1, rank + 1))
        return b.insert_at(b.extract(like[0], corner[:count]), v, corner[:count])
    if name == "slice":
        return b.extract_strided_slice(v, corner, sizes)
    if name == "put":
        part = b.extract_strided_slice(like[-1], corner, sizes)
        at = [int(rng.integers(e - s + 1)) for e, s in zip(v.shape, sizes, strict=True)]
        return b.insert_strided_slice(part, v, at)
    if name == "transpose":
        return b.transpose(v, [int(d) for d in rng.permutation(rank)])
    if name == "broadcast":
        return b.broadcast(v, [*rng.integers(1, 3, int(rng.integers(3))).tolist(), *v.shape])
    if name == "shape_cast":
        return b.shape_cast(v, [1, *v.shape] if rng.random() < 0.5 else [prod(v.shape)])
    if name == "shuffle":
        mask = rng.integers(2 * v.shape[0], size=int(rng.integers(1, 5))).tolist()
        return b.shuffle(v, like[-1], mask)
    return v + like[0]


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(40))
def test_random_chains_mean_the_same_when_they_are_folded(seed, same):
    rng = np.random.default_rng(seed)
    with vector.program("chain") as b:
        values = [
            b.argument("x", V((3, 4))),
            b.argument("y", V((1, 2, 3))),
            b.argument("z", V((4,))),
            b.constant(np.arange(6.0).reshape(2, 3), V((2, 3))),
        ]
        for _ in range(12):
            made = random_op(b, rng, values)
            if made.is_vector and 0 < made.rank < 6 and prod(made.shape) < 200:
                values.append(made)
        b.returns(**{f"r{n}": v for n, v in enumerate(values[-4:])})
    program = b.program
    same(program, canonicalize(program))
    same(program, canonicalize(drop_unit_dims(program)))
    lowered = decompose_slices(program)
    for step in (lower_transposes, lower_rows, decompose_slices, lower_slices, canonicalize):
        lowered = step(lowered)
        same(program, lowered)
    assert not [
        op for op in lowered.walk() if "strided" in op.name or op.name.endswith("transpose")
    ]


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: b.transpose(b.transpose(x, (1, 2, 0)), (2, 0, 1)),
        lambda b, x: b.shape_cast(b.shape_cast(x, (24,)), (2, 3, 4)),
        lambda b, x: b.extract(b.broadcast(x, (1, 2, 3, 4)), [0]),
        lambda b, x: b.extract_strided_slice(
            b.insert_strided_slice(x, b.constant(0.0, V((4, 3, 4))), [1, 0, 0]),
            [1, 0, 0],
            [2, 3, 4],
        ),
        lambda b, x: b.extract(b.insert_at(x, b.constant(0.0, V((3, 2, 3, 4))), [2]), [2]),
        lambda b, x: b.extract_strided_slice(x, [0], [2]),
    ],
)
def test_inverse_changes_cancel(build, same):
    program = one(build, V((2, 3, 4)))
    assert same(program, canonicalize(program)) == {}


def test_constants_are_computed(same):
    def build(b, x):
        c = b.constant(np.arange(8.0).reshape(2, 4), V((2, 4)))
        return x + b.extract(b.transpose(c, (1, 0)), [2]) * 2.0

    program = one(build, V((2,)))
    assert same(program, canonicalize(program)) == {"addf 2": 1}


def test_sums_of_positions_are_folded(same):
    def build(b, m, i):
        at = b.arithmetic("sub", b.arithmetic("add", b.arithmetic("add", i, 1), 2), 3)
        return b.transfer_read(m, [b.arithmetic("mul", at, 1)], (4,))

    changed = canonicalize(one(build, vector.tensor((8,)), vector.scalar("index")))
    (read,) = changed.find("vector.transfer_read")
    assert read.group("indices") == [changed.arguments[1]]


def test_conditions_that_are_known_leave_one_body(same):
    def build(b, x):
        yes = b.compare("slt", b.index(1), b.index(2))
        return b.if_(yes, lambda: x + x, lambda: x * x)[0]

    program = one(build, V((4,)))
    assert same(program, canonicalize(program)) == {"addf 4": 1}


def test_equal_ops_are_computed_once_unless_memory_changes(same):
    def build(b, m, x):
        first = b.load(m, [0], (4,))
        b.store(x + x, m, [0])
        return first + b.load(m, [0], (4,)) + (x + x) * (x + x)

    program = one(build, vector.buffer((4,)), V((4,)))
    counts = same(program, canonicalize(program))
    assert counts.of("load 4") == 1  # the second is what was stored
    assert counts.of("addf 4") == 3


def test_a_loop_loses_what_it_does_not_change(same):
    with vector.program("loop") as b:
        x, y, z = (b.argument(name, V((4,))) for name in "xyz")
        with b.loop(0, 3, carry=[x, y, z, z]) as loop:
            p, q, r, s = loop.carried
            loop.yield_(p + q, q, r * q, s + p)
        b.returns(loop.results[0], loop.results[1], loop.results[3])
    changed = canonicalize(b.program)
    same(b.program, changed)
    (loop,) = changed.find("scf.for")
    assert len(loop.body.carried) == 2  # q does not change, r serves itself alone


def test_what_serves_another_value_is_kept(same):
    with vector.program("loop") as b:
        x, y = (b.argument(name, V((4,))) for name in "xy")
        with b.loop(0, 3, carry=[x, y]) as loop:
            _, q = loop.carried
            loop.yield_(q, q + q)
        b.returns(loop.results[0])
    changed = canonicalize(b.program)
    same(b.program, changed)
    (loop,) = changed.find("scf.for")
    assert len(loop.body.carried) == 2


def test_extracts_of_what_a_loop_gives_are_left(same):
    with vector.program("loop") as b:
        x, y = (b.argument(name, V((2, 4))) for name in "xy")
        with b.loop(0, 3, carry=[x, y]) as loop:
            p, q = loop.carried
            loop.yield_(p + q, q * q)
        b.returns(loop.results[0][1] + loop.results[1][0])
    assert same(b.program, canonicalize(b.program)).of("extract 2x4->4") == 2


def test_values_that_change_places_are_kept(same):
    with vector.program("loop") as b:
        x, y = (b.argument(name, V((4,))) for name in "xy")
        with b.loop(0, 3, carry=[x, y]) as loop:
            p, q = loop.carried
            loop.yield_(q, p)
        b.returns(loop.results[0])
    same(b.program, canonicalize(b.program))


def test_positions_leave_the_loops_that_they_do_not_depend_on():
    with vector.program("loop") as b:
        m = b.argument("m", vector.tensor((8, 8)))
        i = b.argument("i", "index")
        with b.loop(0, 3, carry=[b.constant(0.0, V((4,)))]) as loop:
            at = b.arithmetic("add", b.arithmetic("mul", i, 2), 1)
            loop.yield_(loop.carried[0] + b.transfer_read(m, [at, loop.index], (4,)))
        b.returns(loop.result)
    (loop,) = canonicalize(b.program).find("scf.for")
    assert not [
        op for op in loop.body.operations if op.name.startswith(("arith.addi", "arith.muli"))
    ]
