"""Scatter and gather: how shapes are read, and each rule with its message."""

import numpy as np
import pytest
import tvm

import tvm_iree_ext.runtime.kernel  # noqa: F401 - kernels raise CallError from here on
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import CallError, OpError
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.ops import TensorType

F, B = "float32", "bool"


def compiled(op):
    """The canonical PrimFunc, as a function over arrays that returns the result."""
    cpu_pipeline.register()
    module = tvm.IRModule({op.entry: op.prim_func()})
    library = tvm.compile(module, target="llvm", tir_pipeline=cpu_pipeline.CPU_PIPELINE)

    def call(*arguments):
        shapes = op.signature.bind(op.name, [a.shape for a in arguments])
        result = np.empty(op.signature.result_shapes(shapes)[0], op.dtype)
        library[op.entry](*arguments, result)
        return result

    return call


def i32(*values):
    return np.array(values, "int32")


def f32(*values):
    return np.array(values, F)


def test_operands_and_attributes():
    op = ops.scatter((5, 3), (5, 1), (4, 3), mask=(5,), region="add", unique_indices=False)
    assert str(op) == (
        "iree_linalg_ext.scatter(updates: float32[5, 3], indices: int32[5, 1], mask: bool[5],"
        " original: float32[4, 3]) -> (result: float32[4, 3])"
    )
    assert op.attributes == {
        "dimension_map": [0],
        "unique_indices": False,
        "region": "arg0 + arg1",
        "out_of_range": "skip",
    }
    assert op.flops() == 0
    assert op.bytes() == 4 * (15 + 5 + 12 + 12) + 5


def test_gather_counts_what_it_reads_of_the_source():
    op = ops.gather((1000, 8), (5,))
    assert str(op).endswith(
        "(source: float32[1000, 8], indices: int32[5]) -> (output: float32[5, 8])"
    )
    assert op.bytes() == 4 * (5 + 40 + 40)


@pytest.mark.parametrize(
    ("updates", "indices", "original", "depth", "batch", "window", "depth_dim"),
    [
        ((5, 3), (5, 1), (4, 3), 1, (5,), (3,), True),
        ((5, 3), (5,), (4, 3), 1, (5,), (3,), False),
        ((5, 1, 3), (5, 1), (4, 3), 1, (5, 1), (3,), False),  # both: no indexed dim is covered
        ((5, 2, 3), (5, 1), (4, 3), 1, (5,), (2, 3), True),
        ((3,), (1,), (4, 3), 1, (), (3,), True),
        ((2, 5), (2, 5, 2), (4, 3), 2, (2, 5), (), True),
        ((5, 2), (5, 2), (4, 3), 2, (5,), (2,), True),
        ((1,), (1,), (4,), 1, (1,), (), False),
    ],
)
def test_shapes_are_read_with_and_without_depth_dim(
    updates, indices, original, depth, batch, window, depth_dim
):
    slices = ops.scatter(updates, indices, original, dimension_map=range(depth)).slices
    assert (slices.batch, slices.window, slices.depth_dim) == (batch, window, depth_dim)


def test_a_mask_says_how_shapes_are_read():
    masked = ops.scatter((5, 1, 3), (5, 1), (4, 3), mask=(5,)).slices
    assert (masked.batch, masked.depth_dim) == ((5,), True)
    assert ops.gather((4, 3), (5, 1), mask=(5, 1)).slices.batch == (5, 1)
    assert ops.gather((4, 3), (5, 1)).slices.batch == (5,)


def test_shapes_are_read_so_that_names_stay_names():
    """A window of a name may be any; a batch dim of an extent of 1 would make a 1 of it."""
    for extent, batch in (("w", ("n",)), ("?", ("n",)), (1, ("n", 1))):
        op = ops.gather((9, 5), ("n", 1), output=("n", extent, 5))
        assert op.slices.batch == batch
        op = ops.scatter(("n", extent, 5), ("n", 1), (9, 5))
        assert op.slices.batch == batch


def test_unnamed_extents_get_the_name_of_where_they_stand():
    op = ops.scatter(("?", "?"), ("?", 1), ("?", "?"), mask=("?",))
    assert [operand.shape for operand in op.signature.operands] == [
        ("updates0", "updates1"),
        ("updates0", 1),
        ("updates0",),
        ("original0", "updates1"),
        ("original0", "updates1"),
    ]


def test_a_number_holds_where_it_meets_a_name():
    op = ops.scatter(("n", "w"), (5,), ("rows", 3))
    assert op.types["updates"].shape == (5, 3)
    assert op.types["indices"].shape == (5,)
    assert op.types["original"].shape == ("rows", 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"indices": TensorType((5,), F)},
            r"indices has dtype float32; supported are int8, .*uint64",
        ),
        ({"indices": TensorType((5,), B)}, "indices has dtype bool; supported are int8"),
        ({"indices": ()}, "indices is a scalar; expected rank 1 or more"),
        ({"dimension_map": ()}, "dimension_map is empty; expected an entry per index component"),
        ({"dimension_map": (1,)}, r"dimension_map is \[1\]; expected a permutation of 0 to 0"),
        (
            {"dimension_map": (0, 0)},
            r"dimension_map is \[0, 0\]; expected a permutation of 0 to 1",
        ),
        ({"dimension_map": (0, 1, 2)}, "dimension_map has 3 entries, and .* has rank 2"),
        (
            {"indices": (5, 3), "dimension_map": (0, 1)},
            "the last extent of indices is 3; expected 2, the number of entries of dimension_map",
        ),
        (
            {"indices": (5, "n"), "dimension_map": (0, 1)},
            "the last extent of indices is n; expected the number 2",
        ),
        ({"indices": (6,)}, r"axis 0 has extent 5; expected 6 as in indices axis 0"),
        ({"mask": (6,)}, "mask axis 0 has extent 6; expected 5 as in the batch"),
        ({"mask": (5, 3)}, r"mask \[5, 3\] has rank 2; expected the batch, \[5\]"),
        ({"mask": TensorType((5,), F)}, "mask has dtype float32; supported are bool, int8"),
        ({"out_of_range": "clamp"}, "out_of_range is 'clamp'; expected 'skip' or 'error'"),
    ],
)
@pytest.mark.parametrize("name", ["scatter", "gather"])
def test_rules_of_both_ops(name, arguments, message):
    given = {"indices": (5,)} | arguments

    def make():
        indices = given.pop("indices")
        if name == "scatter":
            return ops.scatter((5, 3), indices, (4, 3), **given)
        return ops.gather((4, 3), indices, output=(5, 3), **given)

    with pytest.raises(OpError, match=f"iree_linalg_ext.{name}: .*{message}"):
        make()


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ((5,), r"\[5\] has a window of rank 0 after the 1 batch dims of indices; expected 1 to 2"),
        ((5, 4, 4, 3), "has a window of rank 3 after the 1 batch dims of indices; expected 1 to 2"),
        ((5, 2), "axis 1 has extent 2; expected 3 as in (original|source) axis 1"),
        ((5, 5, 3), "axis 1 has extent 5; expected at most 4 as in (original|source) axis 0"),
    ],
)
def test_rules_of_windows(slices, message):
    with pytest.raises(OpError, match=f"scatter: updates .*{message}"):
        ops.scatter(slices, (5,), (4, 3))
    with pytest.raises(OpError, match=f"gather: output .*{message}"):
        ops.gather((4, 3), (5,), output=slices)


def test_rules_of_element_types():
    with pytest.raises(OpError, match="updates has dtype int8; expected float32 as original has"):
        ops.scatter(TensorType((5,), "int8"), (5,), (4,))
    with pytest.raises(OpError, match="output has dtype int8; expected float32 as source has"):
        ops.gather((4,), (5,), output=TensorType((5,), "int8"))


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (lambda update: update, "region takes 2 arguments"),
        (lambda update, current: (update, current), "region yields 2 values; expected one"),
        (lambda update, current: update > current, "region yields bool; expected float32"),
        (lambda update, current: "sum", "region yields 'sum'; expected a TIR expression"),
        ("arg0 + arg2", "'arg2' is unknown; arguments are arg0, arg1"),
        ("sum", "'sum' is unknown"),
    ],
)
def test_rules_of_the_region(region, message):
    with pytest.raises(OpError, match=message):
        ops.scatter((5,), (5,), (4,), region=region)


def test_a_region_is_a_callable_a_text_or_a_name():
    by = [
        ops.scatter((5,), (5,), (4,), region=region)
        for region in ("add", "arg0 + arg1", lambda update, current: update + current)
    ]
    assert len({op.attributes["region"] for op in by}) == 1


@pytest.mark.parametrize("unique", [True, False])
def test_canonical_scatter(unique):
    op = ops.scatter((3, 2), (3, 1), (4, 2), region="arg0 - arg1", unique_indices=unique)
    got = compiled(op)(f32([1, 2], [3, 4], [5, 6]), i32([2], [0], [4]), np.ones((4, 2), F))
    np.testing.assert_array_equal(got, [[2, 3], [1, 1], [0, 1], [1, 1]])


def test_canonical_scatter_keeps_the_order_of_repeats():
    op = ops.scatter((3,), (3,), (2,), region="arg0 - arg1", unique_indices=False)
    got = compiled(op)(f32(1, 10, 100), i32(1, 1, 1), f32(7, 0))
    np.testing.assert_array_equal(got, [7, 100 - (10 - 1)])


def test_canonical_gather():
    op = ops.gather((4, 3), (2, 2), output=(2, 2), dimension_map=(1, 0))
    got = compiled(op)(
        np.arange(12, dtype=F).reshape(4, 3), i32([1, 2], [2, 0]), np.full((2, 2), -1, F)
    )
    np.testing.assert_array_equal(got, [[7, 8], [-1, -1]])


def test_canonical_error():
    op = ops.scatter((2,), (2,), (4,), mask=(2,), out_of_range="error")
    call = compiled(op)
    updates, mask, original = f32(1, 2), np.array([True, False]), np.zeros(4, F)
    np.testing.assert_array_equal(call(updates, i32(3, 9), mask, original), [0, 0, 0, 1])
    with pytest.raises(CallError, match="indices are out of range; nothing was written"):
        call(updates, i32(4, 0), mask, original)


def test_canonical_blocks_can_be_scheduled():
    """No block of a scatter with unique indices reads what it writes."""
    op = ops.scatter((64, 8), (64, 1), (100, 8), region="add")
    sch = tvm.s_tir.Schedule(op.prim_func())
    row, column = sch.get_loops(sch.get_sblock("scatter"))
    sch.parallel(row)
    sch.vectorize(column)
