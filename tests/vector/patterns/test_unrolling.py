import numpy as np
import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector import VectorError
from tvm_iree_ext.vector.patterns import RegisterWidths, unroll
from tvm_iree_ext.vector.patterns.unrolling import pieces

MATMUL = ["(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"]


def one(build, *types):
    with vector.program("one") as b:
        values = [b.argument(f"x{n}", type) for n, type in enumerate(types)]
        made = build(b, *values)
        b.returns(*([made] if made is not None else []))
    return b.program


def matmul(m, n, k):
    shapes = [(m, k), (k, n), (m, n)]
    kinds = ["parallel", "parallel", "reduction"]
    return one(
        lambda b, *v: b.contract(*v, indexing_maps=MATMUL, iterator_types=kinds),
        *map(vector.vector, shapes),
    )


def only(name, native):
    return lambda op: native if op.name == name else None


def test_pieces_cover_a_shape_once():
    seen = np.zeros((5, 7), int)
    for offsets, sizes in pieces((5, 7), (2, 4)):
        seen[tuple(slice(o, o + s) for o, s in zip(offsets, sizes, strict=True))] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize(
    ("native", "count"),
    [
        ((1, 4, 1), 16),
        ((2, 4, 1), 8),
        ((1, 4, 4), 4),
        ((4, 4, 4), 1),
        ((1, 1, 1), 64),
        ((3, 3, 3), 8),
    ],
)
def test_contractions(native, count, same):
    program = matmul(4, 4, 4)
    counts = same(program, unroll(program, only("vector.contract", native)))
    assert counts.of("contract") == count


def test_pieces_along_the_reduction_are_a_chain():
    program = unroll(matmul(2, 4, 4), only("vector.contract", (1, 4, 1)))
    contracts = program.find("vector.contract")
    assert len(contracts) == 8
    starts = [op.operand("acc").op.name for op in contracts]
    assert starts.count("vector.contract") == 6
    assert starts.count("vector.extract_strided_slice") == 2


def test_a_contraction_to_a_scalar(same):
    program = one(
        lambda b, x, y, z: b.contract(
            x,
            y,
            z,
            indexing_maps=["(k) -> (k)", "(k) -> (k)", "(k) -> ()"],
            iterator_types=["reduction"],
        ),
        vector.vector((7,)),
        vector.vector((7,)),
        vector.scalar("f32"),
    )
    assert same(program, unroll(program, only("vector.contract", (3,)))).of("contract") == 3


V = vector.vector
CASES = {
    "elementwise": (lambda b, x, y: b.elementwise("mulf", x + y, x), [V((3, 6)), V((3, 6))]),
    "fma": (lambda b, x, y, z: b.fma(x, y, z), [V((2, 9))] * 3),
    "compare": (lambda b, x, y: b.compare("olt", x, y), [V((2, 5))] * 2),
    "cast": (lambda b, x: b.convert(x, "f64"), [V((2, 5))]),
    "select": (
        lambda b, c, x, y: b.select(c, x, y),
        [vector.scalar("i1"), V((2, 5)), V((2, 5))],
    ),
    "transpose": (lambda b, x: b.transpose(x, (2, 0, 1)), [V((3, 5, 2))]),
    "broadcast": (lambda b, x: b.broadcast(x, (2, 3, 9)), [V((3, 1))]),
    "splat": (lambda b, x: b.splat(x, (3, 6)), [vector.scalar("f32")]),
    "multi_reduction": (
        lambda b, x, acc: b.multi_reduction(x, acc, [1], kind="add"),
        [V((3, 5, 6)), V((3, 6))],
    ),
    "to a scalar": (
        lambda b, x, acc: b.multi_reduction(x, acc, [0, 1], kind="maximumf"),
        [V((3, 6)), vector.scalar("f32")],
    ),
    "read": (
        lambda b, m: b.transfer_read(
            m, [1, 2, 0], (3, 4, 9), padding=7.0, permutation_map="(i, j, k) -> (k, 0, i)"
        ),
        [vector.tensor((5, 4, 3))],
    ),
    "masked read": (
        lambda b, m, mask: b.transfer_read(
            m, [1, 2], (6, 4), padding=7.0, permutation_map="(i, j) -> (j, i)", mask=mask
        ),
        [vector.tensor((5, 8)), V((4, 6), "i1")],
    ),
    "write": (
        lambda b, v, m: b.transfer_write(v, m, [1, 2], permutation_map="(i, j) -> (j, i)"),
        [V((3, 6)), vector.tensor((5, 4))],
    ),
    "masked write": (
        lambda b, v, m, mask: b.transfer_write(v, m, [1, 2], mask=mask),
        [V((3, 6)), vector.buffer((5, 9)), V((3, 6), "i1")],
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_every_op_means_the_same_in_pieces(case, lanes, same):
    build, types = CASES[case]
    program = one(build, *types)
    changed = unroll(program, RegisterWidths(32 * lanes, 32 * lanes))
    same(program, changed)
    assert str(changed) != str(program)


def test_transfers_of_the_pieces_that_are_used_alone_are_left(same):
    """A slice of a big read becomes a small read, an insertion that is cut again vanishes."""
    program = one(
        lambda b, m, w: b.transfer_write(
            b.elementwise("negf", b.transfer_read(m, [0, 0], (4, 4))), w, [0, 0]
        ),
        vector.tensor((4, 4)),
        vector.tensor((4, 4)),
    )
    counts = same(program, unroll(program, RegisterWidths()))
    assert counts == {"transfer_read 1x4": 4, "negf 1x4": 4, "transfer_write 1x4": 4}


def test_an_access_has_a_width_of_its_own():
    program = one(
        lambda b, m: b.transfer_write(b.transfer_read(m, [0], (8,)) * 2.0, m, [0]),
        vector.tensor((8,)),
    )
    counts = unroll(program, RegisterWidths(vector_bits=32, access_bits=128)).counts()["before"]
    assert (counts["transfer_read 4"], counts["mulf 1"], counts["transfer_write 4"]) == (2, 8, 2)


def test_narrow_elements_fill_a_register():
    program = one(lambda b, x, y: x + y, V((2, 32), "i8"), V((2, 32), "i8"))
    assert len(unroll(program, RegisterWidths()).find("arith.addi")) == 4
    program = one(lambda b, x: b.convert(x, "f32"), V((2, 32), "f16"))
    assert len(unroll(program, RegisterWidths()).find("arith.extf")) == 16


def test_native_shapes_that_do_not_fit_are_refused():
    with pytest.raises(VectorError, match=r"is \[4\]; expected 3 extents from 1.*NO_NATIVE_SHAPE"):
        unroll(matmul(4, 4, 4), only("vector.contract", (4,)))
    with pytest.raises(VectorError, match="E_NO_NATIVE_SHAPE"):
        unroll(matmul(4, 4, 4), only("vector.contract", (1, 0, 1)))
