import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector.patterns import canonicalize

V = vector.vector


def one(build, *types):
    with vector.program("one") as b:
        values = [b.argument(f"x{n}", type) for n, type in enumerate(types)]
        made = build(b, *values)
        b.returns(*(made if isinstance(made, tuple) else [] if made is None else [made]))
    return b.program


def write(b, v, m, i, j=0, **more):
    more = {"in_bounds": [True] * v.rank, **more}
    return b.transfer_write(v, m, [i, j], **more) or m


def read(b, m, i, j=0, shape=(4,), **more):
    more = {"in_bounds": [True] * len(shape), **more}
    return b.transfer_read(m, [i, j], shape, **more)


MEMORIES = pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])


@MEMORIES
def test_what_was_written_is_what_is_read(memory, same):
    program = one(lambda b, m, v: read(b, write(b, v, m, 1), 1), memory((4, 8)), V((4,)))
    counts = same(program, canonicalize(program))
    assert counts.of("transfer_read") == 0
    assert counts.of("transfer_write") == (1 if memory is vector.buffer else 0)


@MEMORIES
@pytest.mark.parametrize(
    ("at", "shape"),
    [((1, 2), (2,)), ((1, 0), (1, 3)), ((2, 1), (1, 3)), ((1, 3), (1,)), ((1, 1), (2, 2))],
)
def test_a_part_of_what_was_written(memory, at, shape, same):
    program = one(lambda b, m, v: read(b, write(b, v, m, 1), *at, shape), memory((4, 8)), V((2, 4)))
    assert same(program, canonicalize(program)).of("transfer_read") == 0


@MEMORIES
@pytest.mark.parametrize(("at", "shape"), [((1, 2), (4,)), ((0, 0), (2, 4)), ((1, 0), (8,))])
def test_what_was_not_all_written_is_read(memory, at, shape, same):
    program = one(lambda b, m, v: read(b, write(b, v, m, 1), *at, shape), memory((4, 8)), V((2, 4)))
    assert same(program, canonicalize(program)).of("transfer_read") == 1


@MEMORIES
def test_writes_elsewhere_are_looked_past(memory, same):
    def build(b, m, v):
        m = write(b, v, m, 1)
        m = write(b, v * v, m, 2)
        m = write(b, v + v, m, 1, 4)
        return read(b, m, 1), m if memory is vector.tensor else v

    program = one(build, memory((4, 8)), V((4,)))
    assert same(program, canonicalize(program)).of("transfer_read") == 0


@MEMORIES
def test_permuted_and_masked_transfers_are_not_taken_for_plain_ones(memory, same):
    def permuted(b, m, v, mask):
        return read(b, write(b, v, m, 1), 1, 0, (4, 2), permutation_map="(i, j) -> (j, i)")

    def masked(b, m, v, mask):
        m = b.transfer_write(v, m, [1, 0], mask=mask, in_bounds=[True] * 2) or m
        return read(b, m, 1, 0, (2, 4))

    def masked_read(b, m, v, mask):
        return read(b, write(b, v, m, 1), 1, 0, (2, 4), mask=mask, padding=9.0)

    def outside(b, m, v, mask):
        m = b.transfer_write(v, m, [3, 6]) or m
        return b.transfer_read(m, [3, 6], (2, 4), padding=9.0)

    def repeated(b, m, v, mask):
        return read(b, write(b, v, m, 1), 1, 0, (3, 4), permutation_map="(i, j) -> (0, j)")

    for build in (permuted, masked, masked_read, outside, repeated):
        program = one(build, memory((4, 8)), V((2, 4)), V((2, 4), "i1"))
        assert same(program, canonicalize(program)).of("transfer_read") == 1


@MEMORIES
def test_a_write_that_is_covered_goes(memory, same):
    def build(b, m, v, w):
        m = write(b, v, m, 1, 2)
        m = write(b, v, m, 3, 2)
        return write(b, w, m, 1) if memory is vector.tensor else (write(b, w, m, 1) and None)

    program = one(build, memory((4, 8)), V((2,)), V((2, 4)))
    assert same(program, canonicalize(program)).of("transfer_write") == 2


@MEMORIES
def test_a_write_that_is_read_before_it_is_covered_stays(memory, same):
    def build(b, m, v):
        m = write(b, v, m, 1)
        twice = read(b, m, 1, 2)
        return write(b, twice, m, 1)

    program = one(build, vector.tensor((4, 8)), V((4,)))
    assert same(program, canonicalize(program)).of("transfer_write") == 2


def test_temporaries_that_nobody_reads_go(same):
    def build(b, v):
        m = b.alloc((2, 4))
        write(b, v, m, 0)
        write(b, v * v, m, 1)
        return read(b, m, 1)

    program = one(build, V((4,)))
    assert same(program, canonicalize(program)) == {"mulf 4": 1}


def test_stores_in_between_stop_it(same):
    def build(b, m, v, i):
        b.store(v, m, [1, 0])
        with b.loop(0, 2) as loop:
            b.store(v + v, m, [loop.index, 2])
        w = b.load(m, [1, 0], (4,))
        b.store_element(3.0, m, [1, i])
        return w, b.load(m, [1, 0], (4,))

    program = one(build, vector.buffer((4, 8)), V((4,)), vector.scalar("index"))
    assert same(program, canonicalize(program), x2=1).of("load 4") == 2
