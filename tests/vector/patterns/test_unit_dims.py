import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector.patterns import drop_unit_dims

V = vector.vector


def one(build, *types):
    with vector.program("one") as b:
        values = [b.argument(f"x{n}", type) for n, type in enumerate(types)]
        b.returns(build(b, *values))
    return b.program


def test_rows_are_read_computed_and_written_as_one_dim(same):
    def build(b, m, u):
        v = b.transfer_read(m, [1, 0], (1, 4), in_bounds=[True, True])
        return b.transfer_write(v - u, m, [2, 0], in_bounds=[True, True])

    program = one(build, vector.tensor((3, 4)), V((1, 4)))
    counts = same(program, drop_unit_dims(program))
    assert counts == {"transfer_read 4": 1, "extract 1x4->4": 1, "subf 4": 1, "transfer_write 4": 1}


def test_a_contraction_loses_the_dim_that_leads_acc(same):
    program = one(
        lambda b, *v: b.contract(
            *v,
            indexing_maps=["(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"],
            iterator_types=["parallel", "parallel", "reduction"],
        ),
        V((1, 1)),
        V((1, 4)),
        V((1, 4)),
    )
    changed = drop_unit_dims(program)
    (contract,) = changed.find("vector.contract")
    assert [str(map) for map in contract.attributes["indexing_maps"]] == [
        "(d0, d1) -> (d1)",
        "(d0, d1) -> (d1, d0)",
        "(d0, d1) -> (d0)",
    ]
    assert same(program, changed).of("contract 1,1x4,4") == 1


def test_a_dim_that_does_not_lead_every_operand_stays(same):
    program = one(
        lambda b, *v: b.contract(
            *v,
            indexing_maps=["(m, n, k) -> (k, m)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"],
            iterator_types=["parallel", "parallel", "reduction"],
        ),
        V((3, 1)),
        V((3, 4)),
        V((1, 4)),
    )
    assert same(program, drop_unit_dims(program)).of("contract 3x1,3x4,1x4") == 1


def test_a_dim_that_may_lie_outside_keeps_its_check(same):
    for row in (0, 2, 3):

        def build(b, m, row=row):
            return b.transfer_read(m, [row, 0], (1, 4), padding=7.0, in_bounds=[False, True])

        program = one(build, vector.tensor((3, 4)))
        assert same(program, drop_unit_dims(program)).of("transfer_read 1x4") == 1


def test_masks_lose_the_dim_where_memory_has_it(same):
    def build(b, m, mask):
        return b.transfer_read(
            m,
            [1, 0],
            (1, 4),
            permutation_map="(i, j) -> (j, i)",
            in_bounds=[True, False],
            mask=mask,
        )

    program = one(build, vector.tensor((3, 4)), V((4, 1), "i1"))
    assert same(program, drop_unit_dims(program)).of("transfer_read 4") == 1


def test_broadcast_dims_are_dropped_too(same):
    def build(b, m):
        return b.transfer_read(m, [1, 0], (1, 1, 4), permutation_map="(i, j) -> (0, i, j)")

    program = one(build, vector.tensor((3, 4)))
    assert same(program, drop_unit_dims(program)).of("transfer_read 1x4") == 1


def test_loops_carry_no_leading_unit_dims(same):
    def build(b, m, start):
        with b.loop(0, 3, carry=[start, b.constant(0)]) as loop:
            row = b.transfer_read(
                m,
                [loop.index, 0],
                (1, 1, 4),
                in_bounds=[True] * 3,
                permutation_map="(i, j) -> (0, i, j)",
            )
            loop.yield_(loop.carried[0] + row, loop.carried[1])
        return loop.results[0]

    program = one(build, vector.tensor((3, 4)), V((1, 1, 4)))
    changed = drop_unit_dims(program)
    same(program, changed)
    (loop,) = changed.find("scf.for")
    assert [str(v.type) for v in loop.body.carried] == ["vector<4xf32>", "index"]


@pytest.mark.parametrize("shape", [(1, 4), (1, 1, 4), (1, 3, 4)])
def test_slices_lose_them_on_both_sides(shape, same):
    def build(b, x, y):
        cut = b.extract_strided_slice(x, [0] * (len(shape) - 1) + [1], [*shape[:-1], 2])
        return b.insert_strided_slice(cut, y, [0] * (len(shape) - 1) + [2])

    program = one(build, V(shape), V(shape))
    counts = same(program, drop_unit_dims(program))
    assert not any(one.startswith("extract_strided_slice 1x") for one in counts)


def test_neighbours_cancel(same):
    def build(b, x):
        y = x
        for _ in range(4):
            y = y * x
        return y

    program = one(build, V((1, 1, 4)))
    assert same(program, drop_unit_dims(program)) == {
        "extract 1x1x4->4": 1,
        "mulf 4": 4,
        "broadcast 4->1x1x4": 1,
    }
