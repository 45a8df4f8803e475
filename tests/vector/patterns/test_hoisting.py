"""Each precondition of hoisting once kept and once broken."""

import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector.patterns import hoist_transfers

V = vector.vector


def looping(build, *, memory=vector.tensor, shape=(4, 8), upper=3, lower=0, **more):
    """A program with a loop over a tensor that is carried, or over a buffer, and an input x."""
    with vector.program("loop") as b:
        m = b.argument("m", memory(shape))
        x = b.argument("x", vector.tensor((8, 8)))
        extra = {name: b.argument(name, type) for name, type in more.items()}
        bound = extra.get("n", upper)
        is_tensor = memory is vector.tensor
        with b.loop(lower, bound, carry=[m] if is_tensor else []) as loop:
            inside = loop.carried[0] if is_tensor else m
            made = build(b, inside, x, loop.index, **{k: v for k, v in extra.items() if k != "n"})
            loop.yield_(*([made] if is_tensor else []))
        b.returns(*loop.results)
    return b.program


def row(b, memory, i, j=0, *, lanes=4, inside=True, **more):
    return b.transfer_read(memory, [i, j], (lanes,), in_bounds=[inside], **more)


def put(b, v, memory, i, j=0, *, inside=True, **more):
    return b.transfer_write(v, memory, [i, j], in_bounds=[inside], **more) or memory


def hoisted(program, same, **named):
    changed = hoist_transfers(program)
    same(program, changed, **named)
    (loop,) = changed.find("scf.for")
    return [str(v.type) for v in loop.body.carried]


def pair(b, m, x, k):
    return put(b, row(b, m, 1) + row(b, x, k), m, 1)


def test_a_pair_becomes_a_carried_vector(same):
    program = looping(pair)
    assert hoisted(program, same) == ["vector<4xf32>"]
    counts = hoist_transfers(program).counts()
    assert counts["before"] == {"transfer_read 4": 1}
    assert counts["loop"] == {"transfer_read 4": 1, "addf 4": 1}
    assert counts["after"] == {"transfer_write 4": 1}


def test_a_pair_of_a_buffer(same):
    program = looping(pair, memory=vector.buffer)
    assert hoisted(program, same) == ["vector<4xf32>"]


@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
def test_loads_and_stores_of_a_buffer(memory, same):
    def build(b, m, x, k):
        if memory is vector.tensor:
            return pair(b, m, x, k)
        b.store(b.load(m, [1, 0], (4,)) + row(b, x, k), m, [1, 0])
        return m

    assert hoisted(looping(build, memory=memory), same) == ["vector<4xf32>"]


@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
def test_disjoint_pairs_hoist_together(memory, same):
    def build(b, m, x, k):
        for i, j in ((0, 0), (0, 4), (3, 2)):
            m = put(b, row(b, m, i, j) + row(b, x, k), m, i, j)
        return m

    assert hoisted(looping(build, memory=memory), same) == ["vector<4xf32>"] * 3


@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
def test_an_index_that_changes_in_the_loop_stays(memory, same):
    def build(b, m, x, k):
        return put(b, row(b, m, k) + row(b, x, k), m, k)

    program = looping(build, memory=memory)
    assert "vector<4xf32>" not in hoisted(program, same)


def test_an_index_from_outside_may_be_any(same):
    def build(b, m, x, k, i):
        return put(b, row(b, m, i) + row(b, x, k), m, i)

    program = looping(build, i=vector.scalar("index"))
    assert hoisted(program, same, i=2) == ["vector<4xf32>"]


@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
@pytest.mark.parametrize("place", [(1, 2), (1, 0)])
def test_another_read_that_overlaps_stops_it(memory, place, same):
    def build(b, m, x, k):
        other = row(b, m, *place, lanes=3)
        cut = b.extract_strided_slice(row(b, m, 1) + row(b, x, k), [0], [3])
        made = row(b, m, 1) + b.insert_strided_slice(other + cut, row(b, x, k), [0])
        return put(b, made, m, 1)

    assert "vector<4xf32>" not in hoisted(looping(build, memory=memory), same)


@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
def test_another_read_elsewhere_does_not(memory, same):
    def build(b, m, x, k):
        return put(b, row(b, m, 1) + row(b, m, 2), m, 1)

    assert hoisted(looping(build, memory=memory), same)[-1:] == ["vector<4xf32>"]


@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
def test_another_write_that_overlaps_stops_it(memory, same):
    def build(b, m, x, k):
        made = row(b, m, 1) + row(b, x, k)
        return put(b, row(b, x, k), put(b, made, m, 1), 1, 2)

    assert "vector<4xf32>" not in hoisted(looping(build, memory=memory), same)


@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
def test_a_write_at_an_unknown_distance_stops_it(memory, same):
    def build(b, m, x, k, i):
        made = row(b, m, 1) + row(b, x, k)
        return put(b, row(b, x, k), put(b, made, m, 1), i)

    program = looping(build, memory=memory, i=vector.scalar("index"))
    assert "vector<4xf32>" not in hoisted(program, same, i=1)


def test_a_known_distance_from_an_unknown_place_is_enough(same):
    def build(b, m, x, k, i):
        above = b.arithmetic("add", i, 1)
        m = put(b, row(b, m, i) + row(b, x, k), m, i)
        return put(b, row(b, m, above) + row(b, x, k), m, above)

    program = looping(build, i=vector.scalar("index"))
    assert hoisted(program, same, i=2) == ["vector<4xf32>"] * 2


@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
def test_other_shapes_or_maps_stop_it(memory, same):
    def build(b, m, x, k):
        v = b.transfer_read(m, [0, 0], (4,), permutation_map="(i, j) -> (i)", in_bounds=[True])
        return put(b, v + row(b, x, k), m, 0)

    assert "vector<4xf32>" not in hoisted(looping(build, memory=memory), same)


def test_a_buffer_is_read_before_it_is_written(same):
    def build(b, m, x, k):
        put(b, row(b, x, k), m, 1)
        v = row(b, m, 1) + row(b, x, 0)
        b.transfer_write(v, m, [2, 0], in_bounds=[True])
        return m

    assert hoisted(looping(build, memory=vector.buffer), same) == []


@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
def test_a_write_under_a_condition_stops_it(memory, same):
    def build(b, m, x, k):
        v = row(b, m, 1) + row(b, x, k)
        if memory is vector.tensor:
            condition = b.compare("sgt", k, b.index(0))
            return b.if_(condition, lambda: put(b, v, m, 1), lambda: m)[0]
        b.if_(b.compare("sgt", k, b.index(0)), lambda: put(b, v, m, 1) and None)
        return m

    assert "vector<4xf32>" not in hoisted(looping(build, memory=memory), same)


@pytest.mark.parametrize("memory", [vector.tensor, vector.buffer])
def test_a_read_in_an_inner_loop_stops_it_where_it_overlaps(memory, same):
    for elsewhere in (True, False):

        def build(b, m, x, k, place=(1, 4) if elsewhere else (1, 2)):
            v = row(b, m, 1)
            with b.loop(0, 2, carry=[v]) as inner:
                inner.yield_(inner.carried[0] + row(b, m, *place))
            return put(b, inner.result, m, 1)

        program = looping(build, memory=memory)
        changed = hoist_transfers(program)
        same(program, changed)
        outer = changed.find("scf.for")[0]
        carries = any(v.is_vector for v in outer.body.carried)
        assert carries == elsewhere


def test_a_tensor_that_is_used_otherwise_stays(same):
    def build(b, m, x, k):
        cut = b.extract_slice(m, [1, 0], [1, 4])
        v = row(b, m, 1) + b.extract(b.transfer_read(cut, [0, 0], (1, 4)), [0])
        return put(b, v, m, 1)

    assert hoisted(looping(build), same) == ["tensor<4x8xf32>"]


def masked(across, same_mask=True):
    def build(b, m, x, k, mask, other):
        v = row(b, m, 1, inside=True, mask=mask) + row(b, x, k)
        if across:
            v = b.shuffle(v, v, [1, 0, 3, 2])
        return put(b, v, m, 1, mask=mask if same_mask else other)

    return looping(build, mask=V((4,), "i1"), other=V((4,), "i1"))


def test_masks_are_no_harm_where_lanes_do_not_mix(same):
    assert hoisted(masked(across=False), same) == ["vector<4xf32>"]


def test_lanes_that_are_masked_off_are_read_anew_where_lanes_mix(same):
    assert hoisted(masked(across=True), same) == ["tensor<4x8xf32>"]


def test_different_masks_stop_it(same):
    assert hoisted(masked(across=False, same_mask=False), same) == ["tensor<4x8xf32>"]


def test_what_lies_outside_is_padding_in_each_iteration(same):
    for across, carried in ((False, ["vector<4xf32>"]), (True, ["tensor<4x8xf32>"])):

        def build(b, m, x, k, across=across):
            v = row(b, m, 1, 6, inside=False, padding=5.0) + row(b, x, k)
            if across:
                v = b.shuffle(v, v, [3, 2, 1, 0])
            return put(b, v, m, 1, 6, inside=False)

        assert hoisted(looping(build), same) == carried


def test_a_loop_that_may_not_run_reads_nothing_before(same):
    def build(b, m, x, k, i):
        return put(b, row(b, m, i) + row(b, x, k), m, i)

    program = looping(build, n=vector.scalar("index"), i=vector.scalar("index"))
    assert hoisted(program, same, n=0, i=100) == ["tensor<4x8xf32>"]
    inside = looping(pair, n=vector.scalar("index"))
    assert hoisted(inside, same, n=0) == ["vector<4xf32>"]
    assert hoisted(inside, same, n=2) == ["vector<4xf32>"]
    never = looping(pair, lower=3, upper=3)
    assert hoisted(never, same) == ["vector<4xf32>"]


def test_pairs_come_out_of_nests(same):
    with vector.program("nest") as b:
        m = b.argument("m", vector.tensor((4, 8)))
        x = b.argument("x", vector.tensor((8, 8)))
        with b.loop(0, 3, carry=[m]) as outer:
            with b.loop(0, 2, carry=outer.carried) as inner:
                v = row(b, inner.carried[0], 1) + row(b, x, inner.index)
                v = v * row(b, x, outer.index)
                inner.yield_(put(b, v, inner.carried[0], 1))
            outer.yield_(inner.result)
        b.returns(outer.result)
    changed = hoist_transfers(b.program)
    same(b.program, changed)
    for loop in changed.find("scf.for"):
        assert [str(v.type) for v in loop.body.carried] == ["vector<4xf32>"]


def test_what_was_written_before_goes_in_as_the_start(same):
    with vector.program("zeros") as b:
        x = b.argument("x", vector.tensor((8, 8)))
        zero = b.constant(0.0, V((4,)))
        m = put(b, zero, put(b, zero, b.empty((2, 4)), 0), 1)
        with b.loop(0, 3, carry=[m]) as loop:
            m = loop.carried[0]
            for i in (0, 1):
                m = put(b, row(b, m, i) + row(b, x, loop.index, 4 * i), m, i)
            loop.yield_(m)
        b.returns(loop.result)
    changed = hoist_transfers(b.program)
    same(b.program, changed)
    assert changed.counts()["before"] == {"transfer_write 4": 2}
    (loop,) = changed.find("scf.for")
    assert {v.op.name for v in loop.group("inits")} == {"arith.constant"}
