import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector import VectorError, article_programs
from tvm_iree_ext.vector.patterns import Tiling, tile, vectorize


def structured(build, *shapes, dtype="f32"):
    with vector.program("one") as b:
        values = [b.argument(f"x{n}", vector.tensor(s, dtype)) for n, s in enumerate(shapes)]
        b.returns(*build(b, *values))
    return b.program


def checked(program, same):
    vectors = vectorize(program)
    assert not [op for op in vectors.walk() if op.name.startswith("linalg.")]
    return same(program, vectors)


def test_a_matmul_is_one_contraction(same):
    program = structured(lambda b, x, y, z: [b.matmul(x, y, z)], (4, 3), (3, 5), (4, 5))
    assert checked(program, same) == {
        "transfer_read 4x3": 1,
        "transfer_read 3x5": 1,
        "transfer_read 4x5": 1,
        "contract 4x3,3x5,4x5": 1,
        "transfer_write 4x5": 1,
    }


def test_named_and_generic_ops_follow_one_rule(same):
    assert (
        checked(
            structured(
                lambda b, x, y, z: [b.batch_matmul(x, y, z)], (2, 4, 3), (2, 3, 5), (2, 4, 5)
            ),
            same,
        ).of("contract 2x4x3,2x3x5,2x4x5")
        == 1
    )
    assert (
        checked(
            structured(lambda b, x, y, z: [b.matmul_transpose_b(x, y, z)], (4, 3), (5, 3), (4, 5)),
            same,
        ).of("contract 4x3,5x3,4x5")
        == 1
    )
    maps = ["(i, k) -> (k, i)", "(i, k) -> (k)", "(i, k) -> (i)"]

    def build(b, x, y, z):
        return b.generic(
            [x, y],
            [z],
            lambda p, q, acc: acc + p * q,
            indexing_maps=maps,
            iterator_types=["parallel", "reduction"],
        )

    assert checked(structured(build, (3, 4), (3,), (4,)), same).of("contract 3x4,3,4") == 1


def test_operands_are_extended_by_the_contraction(same):
    with vector.program("one") as b:
        x = b.argument("x", vector.tensor((2, 3), "i8"))
        y = b.argument("y", vector.tensor((3, 4), "i8"))
        z = b.argument("z", vector.tensor((2, 4), "i32"))
        maps = ["(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"]
        kinds = ["parallel", "parallel", "reduction"]
        b.returns(
            *b.generic(
                [x, y],
                [z],
                lambda p, q, acc: acc + b.convert(p, "i32") * b.convert(q, "i32"),
                indexing_maps=maps,
                iterator_types=kinds,
            )
        )
    assert checked(b.program, same).of("contract 2x3,3x4,2x4") == 1


def test_elementwise_operands_are_permuted_and_repeated_by_their_reads(same):
    maps = ["(i, j) -> (j, i)", "(i, j) -> (i)", "(i, j) -> (i, j)"]

    def build(b, x, y):
        body = lambda p, q, _: b.select(b.compare("olt", p, q), p * 2.0, q)  # noqa: E731
        return b.generic([x, y], [b.empty((2, 3))], body, indexing_maps=maps)

    counts = checked(structured(build, (3, 2), (2,)), same)
    assert counts.of("transfer_read 2x3") == 2
    assert counts.of("select 2x3") == 1


def test_values_from_outside_are_the_same_in_all_lanes(same):
    with vector.program("one") as b:
        x = b.argument("x", vector.tensor((2, 3)))
        scale = b.argument("scale", "f32")
        (y,) = b.generic([x], [b.empty((2, 3))], lambda p, _: p * scale)
        b.returns(y, filled=b.fill(scale, b.empty((4,))))
    checked(b.program, same)


@pytest.mark.parametrize("kind", ["maximumf", "addf", "minnumf"])
def test_other_folds_are_multi_reductions(kind, same):
    def build(b, x, z):
        return b.generic(
            [x],
            [z],
            lambda p, acc: b.elementwise(kind, p + p, acc),
            indexing_maps=["(i, j, k) -> (k, i, j)", "(i, j, k) -> (k, i)"],
            iterator_types=["parallel", "reduction", "parallel"],
        )

    counts = checked(structured(build, (2, 3, 4), (2, 3)), same)
    assert counts.of("multi_reduction 3x4x2->3x2") == 1


def test_a_body_that_folds_nothing_is_refused():
    def build(b, x, z):
        return b.generic(
            [x],
            [z],
            lambda p, acc: acc - p,
            indexing_maps=["(i) -> (i)", "(i) -> ()"],
            iterator_types=["reduction"],
        )

    with pytest.raises(VectorError, match=r"no fold of its output with something.*E_NO_REDUCTION"):
        vectorize(structured(build, (4,), ()))


def test_extents_that_are_not_known_are_refused():
    program = structured(lambda b, x: [b.fill(0, x)], ("n", 4))
    with pytest.raises(VectorError, match=r"linalg.fill: d0 of the nest has the extent n"):
        vectorize(program)


def test_maps_that_are_no_window_are_refused():
    def build(b, x):
        maps = ["(i, j) -> (i + j)", "(i, j) -> (i, j)"]
        return b.generic([x], [b.empty((2, 3))], lambda p, _: p, indexing_maps=maps)

    with pytest.raises(VectorError, match=r"\(d0 \+ d1\) is no projected permutation.*E_MAP"):
        vectorize(structured(build, (4,)))


@pytest.mark.parametrize("layout", ["nhwc_hwcf", "nchw_fchw"])
@pytest.mark.parametrize(("strides", "dilations"), [((1, 1), (1, 1)), ((2, 1), (1, 2))])
def test_convolutions_are_unrolled_contractions(layout, strides, dilations, same):
    image, kernel, out = [2, 6, 7, 3], [2, 3, 3, 4], [2]
    for extent, window, s, d in zip(image[1:3], kernel[:2], strides, dilations, strict=True):
        out.append((extent - (window - 1) * d - 1) // s + 1)
    out.append(4)
    if layout == "nchw_fchw":
        image, out = ([one[n] for n in (0, 3, 1, 2)] for one in (image, out))
        kernel = [kernel[n] for n in (3, 2, 0, 1)]

    def build(b, x, y, z):
        return [b.conv_2d(x, y, z, strides=strides, dilations=dilations, layout=layout)]

    program = structured(build, image, kernel, out)
    positions = 2 * (out[1] * out[2] if layout == "nhwc_hwcf" else out[2] * out[3])
    counts = checked(program, same)
    assert counts.of("contract 1x1,1x4,1x4") == positions * 2 * 3 * 3


def test_padding_is_conditional_reads_of_rows():
    tiled = tile(article_programs.conv(), Tiling((1, 4, 4, 32), (1, 1, 2, 4), (1, 1, 0)))
    vectors = vectorize(tiled)
    assert vectors.counts()["loop"].of("if") == 3
    assert not vectors.find("tensor.pad")
    for op in vectors.find("scf.if"):
        (read,) = [one for one in op.body.operations if one.name == "vector.transfer_read"]
        assert read.attributes["in_bounds"] == (True,)


@pytest.mark.parametrize(
    ("low", "high"), [((0, 1), (1, 0)), ((2, 0), (0, 0)), ((0, 2), (0, 1)), ((0, 0), (0, 0))]
)
def test_a_pad_of_any_dims_alone(low, high, same):
    program = structured(lambda b, x: [b.pad(x, low, high, 7.0)], (2, 3))
    checked(program, same)


def test_a_pad_value_that_is_not_known(same):
    with vector.program("one") as b:
        x = b.argument("x", vector.tensor((1, 3)))
        value = b.argument("value", "f32")
        b.returns(b.pad(x, [0, 1], [0, 1], value))
    checked(b.program, same)


def test_reads_and_writes_of_slices_are_of_what_they_are_cut_from(same):
    def build(b, x):
        cut = b.extract_slice(x, [2, 1], [2, 3])
        (made,) = b.generic([cut], [cut], lambda p, _: p * 2.0)
        return [b.insert_slice(made, x, [2, 1])]

    counts = checked(structured(build, (5, 5)), same)
    assert counts == {"transfer_read 2x3": 1, "mulf 2x3": 1, "transfer_write 2x3": 1}


def test_a_slice_that_goes_elsewhere_stays(same):
    def build(b, x):
        cut = b.extract_slice(x, [2, 1], [2, 3])
        (made,) = b.generic([cut], [cut], lambda p, _: p * 2.0)
        return [b.insert_slice(made, x, [0, 0])]

    assert checked(structured(build, (5, 5)), same).of("insert_slice 2x3") == 1
