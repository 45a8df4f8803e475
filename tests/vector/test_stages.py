import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector import article_programs, patterns

SMALL = {
    "dot": lambda: article_programs.dot(9, 10, 6),
    "dot of tiles": lambda: article_programs.dot(8, 32, 8),
    "dot of one": lambda: article_programs.dot(1, 1, 1),
    "conv": lambda: article_programs.conv((1, 5, 4, 3), 5),
    "conv with low padding": lambda: article_programs.conv(
        (1, 3, 4, 2), 4, stride=1, pad=((1, 0), (2, 1))
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("bits", [128, 256])
def test_every_stage_means_what_the_first_means(name, bits, same):
    first, *others = vector.stages(SMALL[name](), patterns.RegisterWidths(bits, bits))
    assert first.name == "source"
    for stage in others:
        same(first.program, stage.program)


def test_stages_come_in_order():
    assert [stage.name for stage in vector.stages(article_programs.dot(4, 4, 4))] == [
        "source",
        "tiled",
        "vectorised",
        "unrolled",
        "unit_dims_dropped",
        "decomposed",
        "hoisted",
        "outer_products",
        "lowered",
    ]


@pytest.mark.parametrize(
    "program", [article_programs.dot(), article_programs.conv()], ids=["dot", "conv"]
)
def test_the_last_stage_has_1d_vectors_and_no_dead_op(program):
    *_, last = vector.stages(program)
    for op in last.program.walk():
        assert all(value.rank <= 1 for value in op.results if value.is_vector)
        assert not op.name.startswith(("linalg.", "tensor.ex", "tensor.in", "vector.contract"))
    assert str(patterns.canonicalize(last.program)) == last.text


@pytest.mark.parametrize(("bits", "lanes"), [(128, 4), (256, 8), (512, 16)])
def test_registers_of_a_target_are_filled(bits, lanes):
    *_, last = vector.stages(article_programs.dot(), patterns.RegisterWidths(bits, bits))
    counts = last.counts
    assert counts["loop"] == {
        "transfer_read 4": 4 if lanes > 4 else 8,
        **({f"transfer_read {lanes}": 4} if lanes > 4 else {}),
        "extract 4->scalar": 16,
        f"splat {lanes}": 16,
        f"fma {lanes}": 16,
    }
    assert last.carried == [f"4 x vector {lanes}"]


def test_texts_are_the_same_each_time():
    texts = [[stage.text for stage in vector.stages(article_programs.conv())] for _ in range(2)]
    assert texts[0] == texts[1]


def test_unit_dims_must_go_before_hoisting():
    """The order counts: a loop that carries n-D vectors stops the patterns that follow."""
    every = {stage.name: stage.program for stage in vector.stages(article_programs.dot())}
    early = patterns.hoist_transfers(every["unrolled"])
    (loop,) = early.find("scf.for")
    assert {str(v.type) for v in loop.body.carried} == {"vector<1x4xf32>"}


def test_other_elements_and_ops_go_the_same_way(same):
    with vector.program("relu") as b:
        x = b.argument("x", vector.tensor((6, 5), "i8"))
        y = b.argument("y", vector.tensor((5, 9), "i8"))
        bias = b.argument("bias", vector.tensor((9,), "i32"))
        out = b.empty((6, 9), "i32")
        c = b.matmul(x, y, b.fill(0, b.empty((6, 9), "i32")))
        maps = ["(i, j) -> (i, j)", "(i, j) -> (j)", "(i, j) -> (i, j)"]
        zero = b.constant(0, "i32")
        b.returns(
            *b.generic(
                [c, bias],
                [out],
                lambda p, q, _: b.elementwise("maxsi", p + q, zero),
                indexing_maps=maps,
            )
        )
    first, *_, last = vector.stages(b.program)
    counts = same(first.program, last.program)
    assert counts.of("muli 4") > 0
    assert counts.of("fma") == 0


def test_a_transposed_operand_and_a_batch_go_the_same_way(same):
    with vector.program("batch") as b:
        x, y = (b.argument(n, vector.tensor((2, 4, 4))) for n in "xy")
        b.returns(b.batch_matmul(x, y, b.fill(0, b.empty((2, 4, 4)))))
    first, *_, last = vector.stages(b.program)
    assert same(first.program, last.program).of("fma 4") > 0
    with vector.program("transposed") as b:
        x, y = (b.argument(n, vector.tensor((8, 8))) for n in "xy")
        b.returns(b.matmul_transpose_b(x, y, b.fill(0, b.empty((8, 8)))))
    first, *_, last = vector.stages(b.program)
    assert same(first.program, last.program).of("fma 4") > 0


def sums_of_products(b, outs, maps, iterators, *ins):
    """A nest ``out += x * y`` of operands of these maps."""
    (out,) = outs
    zeros = b.fill(0, b.empty(out))
    operands = [b.argument(name, vector.tensor(shape)) for name, shape in ins]
    return b.generic(
        operands, [zeros], lambda x, y, z: x * y + z, indexing_maps=maps, iterator_types=iterators
    )[0]


COLUMNS = {
    "a vector by a matrix's rows": (
        [(9,)],
        ["(i, j) -> (i, j)", "(i, j) -> (j)", "(i, j) -> (i)"],
        ["parallel", "reduction"],
        ("x", (9, 7)),
        ("y", (7,)),
    ),
    "a product that is written transposed": (
        [(5, 9)],
        ["(i, j, k) -> (i, k)", "(i, j, k) -> (k, j)", "(i, j, k) -> (j, i)"],
        ["parallel", "parallel", "reduction"],
        ("x", (9, 7)),
        ("y", (7, 5)),
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_an_operand_end_in_1d_vectors(name, same):
    with vector.program("columns") as b:
        b.returns(sums_of_products(b, *COLUMNS[name]))
    first, *_, last = vector.stages(b.program)
    counts = same(first.program, last.program)
    assert counts.of("fma 4") > 0
    assert counts.of("shape_cast") == 0
    assert all(v.rank < 2 for op in last.program.walk() for v in op.results if v.is_vector)


def test_a_result_that_is_one_number_is_refused():
    maps = ["(i) -> (i)", "(i) -> (i)", "(i) -> ()"]
    with vector.program("inner") as b:
        given = ("x", (7,)), ("y", (7,))
        b.returns(sums_of_products(b, [()], maps, ["reduction"], *given))
    with pytest.raises(vector.VectorError, match=r"one number.*\[E_NO_LEGAL_SHAPE\]"):
        list(vector.stages(b.program))


def test_a_vector_of_rank_0_is_written_to_a_tensor_of_rank_0():
    with vector.program("one") as b:
        x = b.argument("x", vector.tensor(()))
        one = b.transfer_read(x, [], ())
        b.returns(b.transfer_write(b.elementwise("addf", one, one), b.empty(()), []))
    assert b.program.evaluate(3.0)["result"] == 6
