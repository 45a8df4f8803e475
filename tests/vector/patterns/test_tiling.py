import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector import VectorError, article_programs
from tvm_iree_ext.vector.patterns import Tiling, tile


def test_dot_is_tiled_as_in_the_article():
    tiled = tile(article_programs.dot(), Tiling((8, 32), (4, 4), (4,)))
    workgroups, threads = tiled.find("scf.forall")
    assert [one.constant for one in workgroups.group("bounds")] == [16, 2]
    assert [one.constant for one in threads.group("bounds")] == [2, 8]
    assert [op.attributes["mapping"] for op in (workgroups, threads)] == ["workgroup", "thread"]
    (loop,) = tiled.find("scf.for")
    assert [loop.operand(name).constant for name in ("lower", "upper", "step")] == [0, 256, 4]
    counts = tiled.counts()
    assert counts["loop"] == {"extract_slice 4x4": 2, "matmul 4x4,4x4,4x4": 1}
    assert counts["before"].of("fill 4x4") == counts["after"].of("generic") == 1


def test_conv_is_tiled_as_in_the_article():
    tiled = tile(article_programs.conv(), Tiling((1, 4, 4, 32), (1, 1, 2, 4), (1, 1, 0)))
    loops = tiled.find("scf.for")
    assert [loop.operand("upper").constant for loop in loops] == [3, 3]
    assert tiled.counts()["loop"] == {
        "extract_slice 1x?x?x3": 1,
        "extract_slice 1x1x3x4": 1,
        "pad 1x1x3x3": 1,
        "conv_2d_nhwc_hwcf 1x1x3x3,1x1x3x4,1x1x2x4": 1,
    }


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (8, 4, 8), (9, 9, 9), (13, 6, 5)])
@pytest.mark.parametrize(
    "tiling", [Tiling((8, 4), (4, 4), (4,)), Tiling((3, 6), (1, 3)), Tiling((2, 2), (2, 2), (2,))]
)
def test_what_a_tile_does_not_divide_is_peeled(shape, tiling, same):
    program = article_programs.dot(*shape)
    same(program, tile(program, tiling))


@pytest.mark.parametrize(
    "pad", [((0, 1), (0, 1)), ((1, 1), (2, 0)), ((3, 4), (0, 5)), ((0, 0), (1, 0))]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_of_any_width_is_cut_to_tiles(pad, stride, same):
    program = article_programs.conv((1, 5, 4, 2), 3, stride=stride, pad=pad)
    same(program, tile(program, Tiling((1, 2, 2, 3), (1, 1, 2, 3), (1, 1, 0))))


def structured(build, *shapes):
    with vector.program("one") as b:
        values = [b.argument(f"x{n}", vector.tensor(shape)) for n, shape in enumerate(shapes)]
        b.returns(*build(b, *values))
    return b.program


def test_a_contraction_that_is_the_result_starts_from_its_out(same):
    program = structured(lambda b, x, y, z: [b.matmul(x, y, z)], (4, 6), (6, 5), (4, 5))
    same(program, tile(program, Tiling((2, 5), (2, 5), (4,))))


def test_two_results_are_tiled_each(same):
    def build(b, x, y):
        out = b.empty((4, 6))
        (s,) = b.generic([x, y], [out], lambda p, q, _: p + q)
        (d,) = b.generic([s, y], [b.empty((4, 6))], lambda p, q, _: p * q)
        return [s, d]

    program = structured(build, (4, 6), (4, 6))
    tiled = tile(program, Tiling((4, 4), (2, 2)))
    assert len(tiled.find("linalg.generic")) > 2
    same(program, tiled)


def test_maps_that_permute_and_repeat(same):
    maps = ["(i, j) -> (j, i)", "(i, j) -> (j)", "(i, j) -> (i, j)"]

    def build(b, x, y):
        return b.generic([x, y], [b.empty((4, 6))], lambda p, q, _: p - q, indexing_maps=maps)

    program = structured(build, (6, 4), (6,))
    same(program, tile(program, Tiling((4, 2), (2, 2))))


def test_chains_are_computed_where_they_are_needed(same):
    def build(b, x, y, w):
        first = b.matmul(x, y, b.fill(1.0, b.empty((4, 6))))
        (r,) = b.generic([first], [b.empty((4, 6))], lambda p, _: p * 2.0)
        return [b.matmul(r, w, b.fill(0, b.empty((4, 3))))]

    program = structured(build, (4, 5), (5, 6), (6, 3))
    same(program, tile(program, Tiling((4, 3), (2, 3), (2,))))


def test_extents_that_are_not_known_are_refused():
    program = structured(lambda b, x, y, z: [b.matmul(x, y, z)], ("m", 6), (6, 5), ("m", 5))
    with pytest.raises(VectorError, match=r"linalg.matmul: d0 has the extent m, known at run time"):
        tile(program, Tiling((2, 5), (2, 5)))
    program = structured(lambda b, x, y, z: [b.matmul(x, y, z)], (4, "k"), ("k", 5), (4, 5))
    with pytest.raises(VectorError, match=r"d2 has the extent k.*E_NO_LEGAL_SHAPE"):
        tile(program, Tiling((2, 5), (2, 5)))


def test_tilings_that_do_not_fit_are_refused():
    with pytest.raises(VectorError, match="dim 1 has workgroup tiles of 6 and thread tiles of 4"):
        Tiling((4, 6), (4, 4))
    with pytest.raises(VectorError, match="E_ATTR_LENGTH"):
        Tiling((4,), (4, 4))
    with pytest.raises(VectorError, match=r"reduction \(-1,\)"):
        Tiling((4,), (4,), (-1,))
    with pytest.raises(VectorError, match="expected 2 sizes as the result"):
        tile(article_programs.dot(4, 4, 4), Tiling((4,), (4,)))
    with pytest.raises(VectorError, match=r"the reduction steps \[4, 4\]; expected 1"):
        tile(article_programs.dot(4, 4, 4), Tiling((4, 4), (4, 4), (4, 4)))
