"""What a custom_op accepts, what it refuses and in which words; tiles; the canonical form."""

import ml_dtypes
import numpy as np
import pytest
import tvm

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops import IteratorType, TensorType
from tvm_iree_ext.ops.families.custom_op import custom_op_tiles
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op
from tvm_iree_ext.targets.names import make_target

MATMUL = ["(d0, d1)[s0] -> (d0, d1)", "(d0, d1)[s0] -> (d1, s0)", "(d0, d1)[s0] -> (d0, s0)"]
SHAPES = ([(3, 2), (2, 4)], [(3, 4)])


def product(a, b, c):
    return a @ b + c


def make(region=product, shapes=SHAPES, maps=MATMUL, iterators=("parallel", "reduction"), **more):
    return ops.custom_op(
        *shapes, indexing_maps=maps, iterator_types=iterators, region=region, **more
    )


def test_operands_are_inputs_then_inits_then_results():
    op = make(shapes=([("m", 2), ("?", "n")], [("?", 4)]))
    assert [str(o) for o in op.signature.operands] == [
        "input0: float32[m, 2]",
        "input1: float32[2, 4]",
        "init0: float32[m, 4]",
        "result0: float32[m, 4]",
    ]
    assert op.attributes["iterator_types"] == ["parallel", "reduction"]
    assert op.attributes["indexing_maps"] == MATMUL


def test_ops_with_other_regions_are_other_ops():
    assert make().describe() == make().describe()
    assert make().describe() != make(lambda a, b, c: a @ b - c).describe()


def test_a_parallel_dim_that_an_output_omits_is_not_split():
    assert make().tileable == (0, 1)
    maps = [*MATMUL[:2], "(d0, d1)[s0] -> (d0, s0)"]
    assert make(maps=maps, iterators=("parallel", "parallel")).tileable == (0,)


def test_a_scalar_operand_is_an_expression():
    op = ops.custom_op(
        [TensorType((), "float32")],
        [(4,)],
        indexing_maps=["(d0) -> ()", "(d0) -> (d0)"],
        iterator_types=["parallel"],
        region=lambda factor, tile: tile * factor,
    )
    assert op.signature.operands[0].role == "scalar"


def test_iterator_types_are_the_dialects():
    assert [(one.name.lower(), one.value) for one in IteratorType] == [
        ("parallel", 0),
        ("reduction", 1),
    ]
    assert IteratorType.parse("#iree_linalg_ext.iterator_type<reduction>").value == 1
    with pytest.raises(OpError, match="iterator_type 'window': expected 'parallel' or 'reduct"):
        IteratorType.parse("window")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"maps": MATMUL[:2]}, "2 indexing maps; expected one for each of 3 operands"),
        ({"maps": ["(d0) -> (d0, d0)", *MATMUL[1:]]}, "input0 has 1 dims; expected 2"),
        ({"maps": ["(d0, d1) -> (d0, d1)", *MATMUL[1:]]}, "input1 has 1 symbols; expected 0"),
        ({"maps": ["(d0, d1)[s0] -> (d0)", *MATMUL[1:]]}, "input0 .* has rank 2; its .* 1 results"),
        ({"maps": ["(d0, d1)[s0] -> (d0 + 1, d1)", *MATMUL[1:]]}, "'d0 . 1' is not a plain dim"),
        ({"maps": ["d0", *MATMUL[1:]]}, "indexing map 'd0': expected the form"),
        (
            {"shapes": ([(3, 2), (5, 4)], [(3, 4)])},
            r"input1 axis 0 \(d1\) has extent 5; expected 2",
        ),
        ({"shapes": ([(3, 2), (2, 4)], [])}, "has no output; expected at least one"),
        ({"iterators": ("parallel",)}, "input0 has 2 dims; expected 1 as there are iterator types"),
        ({"region": lambda a, b: a}, "region takes 3 tiles: too many positional"),
        ({"region": lambda a, b, c: (c, c)}, "region yields 2 tiles; expected 1"),
        ({"region": lambda a, b, c: 0}, "region yields 0 for output0; expected a tile"),
        ({"region": lambda a, b, c: a}, "region yields extent 2 for output0; expected 4"),
        (
            {"region": lambda a, b, c: custom_op_tiles.reduce(c, 0, lambda x, y: x + y, 0)},
            "region yields float32 of rank 1 for output0; expected float32 of rank 2",
        ),
        ({"region": lambda a, b, c: a + c}, "elementwise of tiles with extents 2 and 4"),
        ({"region": lambda a, b, c: b @ a @ c}, "matmul of tiles with extents 4 and 3"),
        ({"region": lambda a, b, c: c[0]}, "a tile of rank 2 is indexed by 1 positions"),
        (
            {"region": lambda a, b, c: custom_op_tiles.apply(max, 1, 2)},
            "elementwise .* needs a tile",
        ),
        (
            {"region": lambda a, b, c: custom_op_tiles.reduce(c, 2, max, 0)},
            "along axis 2 of .* rank 2",
        ),
    ],
)
def test_refuses(changes, message):
    with pytest.raises(OpError, match=f"iree_linalg_ext.custom_op: .*{message}"):
        make(**changes)


def test_refuses_scalar_outputs_and_dims_without_an_extent():
    with pytest.raises(OpError, match="output0 is a scalar; outputs are ranked tensors"):
        make(shapes=([(3, 2), (2, 4)], [()]))
    with pytest.raises(OpError, match="d1 appears in no indexing map, so it has no extent"):
        ops.custom_op(
            [],
            [(3,)],
            indexing_maps=["(d0, d1) -> (d0)"],
            iterator_types=["parallel", "parallel"],
            region=lambda tile: tile,
        )


def test_index_is_of_a_custom_op_and_of_one_of_its_dims():
    with pytest.raises(OpError, match=r"index: used outside the region of iree_linalg_ext.cust"):
        custom_op_tiles.index(0)
    for dim in (2, -1):
        with pytest.raises(OpError, match=f"index: dim is {dim}; the custom_op has dims 0 to 1"):
            make(lambda a, b, c, dim=dim: c + custom_op_tiles.index(dim))


def test_the_canonical_form_is_one_tile():
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("f4") for shape in ((3, 2), (2, 4), (3, 4))]
    library = tvm.compile(tvm.IRModule({"custom_op": make().prim_func()}), target="llvm")
    result = tvm.runtime.tensor(np.empty((3, 4), "f4"))
    library["custom_op"](*map(tvm.runtime.tensor, arrays), result)
    np.testing.assert_allclose(result.numpy(), arrays[0] @ arrays[1] + arrays[2], atol=1e-6)


def scaled_sums(rows, factor, out):
    """A product with the transpose of memory, a sum along it, and a number of the call."""
    kept = custom_op_tiles.store(rows * factor)
    sums = custom_op_tiles.reduce(kept, 1, lambda total, one: total + one, 0)
    return sums + out


@pytest.mark.parametrize("target", ["llvm", "cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("dtype", ["bfloat16", "int4", "uint4", "float8_e4m3fn", *dtypes.COMPLEX])
def test_bodies_compute_with_numbers_of_types_that_no_call_passes(dtype, target):
    op = ops.custom_op(
        [TensorType((5, 3), dtype), TensorType((), dtype)],
        [TensorType((5,), dtype)],
        indexing_maps=["(d0)[s0] -> (d0, s0)", "(d0)[s0] -> ()", "(d0)[s0] -> (d0)"],
        iterator_types=["parallel"],
        region=scaled_sums,
    )
    rng = np.random.default_rng(0)
    own = dtypes.numpy_dtype(dtype)
    factor = 2 - 1j if dtype in dtypes.COMPLEX else 2
    rows, out = (rng.integers(0, 4, shape).astype(own) for shape in ((5, 3), 5))
    operands = {"input0": rows, "input1": factor, "init0": out}
    if target == "llvm":
        got = ext.build(op)(rows, factor, out)
    else:
        got = simulate_op(op, make_target(target), operands).check().results["result0"]
    wide = dtype if dtype in dtypes.COMPLEX else "int64" if "int" in dtype else "float64"
    want = rows.astype(wide) * factor
    want = (want.sum(axis=1) + out.astype(wide)).astype(own)  # small numbers: nothing is rounded
    np.testing.assert_array_equal(got, want)


def test_products_of_8_bit_floats_are_summed_in_the_type_that_is_asked_for():
    op = ops.custom_op(
        [TensorType((4, 40), "float8_e5m2"), TensorType((40, 3), "float8_e5m2")],
        [TensorType((4, 3), "float32")],
        indexing_maps=["(d0)[s0, s1] -> (d0, s0)", "(d0)[s0, s1] -> (s0, s1)",
                       "(d0)[s0, s1] -> (d0, s1)"],
        iterator_types=["parallel"],
        region=lambda a, b, c: custom_op_tiles.matmul(a, b, dtype="float32") + c,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(ml_dtypes.float8_e5m2) for s in ((4, 40), (40, 3)))
    got = ext.build(op)(a, b, np.ones((4, 3), "float32"))
    np.testing.assert_array_equal(got, a.astype("float32") @ b.astype("float32") + 1)


def test_takes_no_complex_number_for_an_element_that_is_none():
    scalar = {
        "indexing_maps": ["(d0) -> ()", "(d0) -> (d0)"],
        "iterator_types": ["parallel"],
        "region": lambda number, tile: tile * number,
    }
    with pytest.raises(OpError, match="a complex number for an element of float32"):
        ops.custom_op([TensorType((), "complex64")], [(4,)], **scalar)
