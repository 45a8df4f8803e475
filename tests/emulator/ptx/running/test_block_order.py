"""Joins come after all ways to them, and what follows a loop after the loop."""

import numpy as np
import pytest

from tvm_iree_ext.emulator.ptx.running.block_order import block_order


def test_what_stands_last_and_jumps_back_comes_before_the_join():
    # 0 parts to 1 and 4; 4 stands behind the join 2.
    edges = {0: [4, 1], 1: [2], 2: [3], 3: [], 4: [2]}
    order = block_order(edges, 0)
    assert order.index(2) > max(order.index(1), order.index(4))


def test_a_loop_comes_before_what_follows_it():
    # 1 to 3 are a loop, left from 1 to 4, with a branch in it.
    edges = {0: [1], 1: [4, 2], 2: [3, 5], 3: [1], 4: [], 5: [3]}
    order = block_order(edges, 0)
    assert order[0] == 0
    assert order[-1] == 4
    assert order.index(3) > order.index(5)


def test_loops_in_loops():
    edges = {0: [1], 1: [2, 5], 2: [3, 4], 3: [2], 4: [1], 5: [6], 6: [5, 7], 7: []}
    assert block_order(edges, 0) == [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("seed", range(20))
def test_without_loops_every_edge_goes_on(seed):
    rng = np.random.default_rng(seed)
    count = 30
    names = rng.permutation(count)
    edges = {int(name): [] for name in names}
    for place in range(count - 1):
        for other in rng.integers(place + 1, count, 2):
            edges[int(names[place])].append(int(names[other]))
        edges[int(names[place])].append(int(names[place + 1]))
    order = {name: place for place, name in enumerate(block_order(edges, int(names[0])))}
    assert len(order) == count
    assert all(order[start] < order[end] for start in edges for end in edges[start])


def test_lanes_of_what_stands_last_are_waited_for(run_ptx):
    body = """setp.gt.u32 %p0, %r0, 20; mov.u32 %r1, 1; @%p0 bra FAR;
    JOIN: bar.sync 0; mad.wide.u32 %rd9, %r0, 4, %rd0; st.global.u32 [%rd9], %r1; ret;
    FAR: mov.u32 %r1, 2; bra JOIN;"""
    (got,) = run_ptx(body, np.zeros(64, "u4"), lanes=64)
    np.testing.assert_array_equal(got, np.where(np.arange(64) > 20, 2, 1))
