"""What the Winograd transforms accept and refuse, and their canonical TensorIR."""

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.errors import OpError

INPUT, FILTER, OUTPUT = (
    ops.winograd_input_transform,
    ops.winograd_filter_transform,
    ops.winograd_output_transform,
)
NCHW = {"image_dimensions": (2, 3)}
LINE = {"image_dimensions": (1,)}


@pytest.mark.parametrize(
    ("make", "shape", "attributes", "result"),
    [
        (INPUT, (1, 58, 58, 64), {}, (8, 8, 1, 10, 10, 64)),
        (INPUT, (1, 64, 59, 3), NCHW, (8, 8, 1, 10, 1, 64)),
        (INPUT, (1, 8, 9, 2), {"output_tile_size": 2}, (4, 4, 1, 3, 4, 2)),
        (INPUT, ("n", "h", 10, 2), {}, (8, 8, "n", "ceildiv(h - 2, 6)", 2, 2)),
        (INPUT, (5, 8), {}, (8, 8)),
        (FILTER, (3, 3, 4, 5), {}, (8, 8, 4, 5)),
        (FILTER, (5, 4, 3, 3), {"kernel_dimensions": (2, 3)}, (8, 8, 4, 5)),
        (FILTER, (3, 3), {"output_tile_size": 4}, (6, 6)),
        (OUTPUT, (8, 8, 1, 2, 3, 4), {}, (1, 12, 18, 4)),
        (OUTPUT, (8, 8, 1, "h", 3, 4), NCHW, (1, 4, "h * 6", 18)),
        (OUTPUT, (8, 8), {}, (6, 6)),
        (INPUT, (2, 58, 64), LINE, (8, 2, 10, 64)),
        (INPUT, (2, 64, "w"), {"image_dimensions": (2,)}, (8, 2, "ceildiv(w - 2, 6)", 64)),
        (INPUT, (5,), LINE, (8,)),
        (FILTER, (5, 4, 7), {"kernel_dimensions": (2,), "kernel_size": 7}, (12, 4, 5)),
        (OUTPUT, (8, 2, 3, 4), LINE, (2, 18, 4)),
        (OUTPUT, (8, "n", 3, 4), {"image_dimensions": (2,)}, ("n", 4, 18)),
    ],
)
def test_result_shapes(make, shape, attributes, result):
    op = make(shape, result if all(isinstance(e, int) for e in result) else None, **attributes)
    assert op.signature.results[0].shape == result


def test_flops_are_those_of_the_matrix_products():
    assert OUTPUT((8, 8)).flops() == 2 * (6 * 8 * 8 + 6 * 6 * 8)
    assert OUTPUT((8, 3, 2, 5), **LINE).flops() == 2 * 30 * 6 * 8
    assert INPUT((1, 8, "w", 2)).flops({"w": 14}) == 2 * 4 * 2 * 8 * 8 * 8


REFUSED = {
    "input's rank": (lambda: INPUT((1, 8, 8)), r"input \[1, 8, 8\] has rank 3; expected 2 or 4"),
    "filter's rank": (lambda: FILTER((3, 3, 1)), "has rank 3; expected 2 or 4"),
    "output's rank": (lambda: OUTPUT((8, 8, 1, 1)), "has rank 4; expected 2 or 6"),
    "image dims": (
        lambda: INPUT((1, 8, 8, 1), image_dimensions=(0, 1)),
        r"image_dimensions is \[0, 1\]; expected \[1, 2\] or \[2, 3\]",
    ),
    "number of image dims": (
        lambda: OUTPUT((8, 8, 1, 1, 1, 1), image_dimensions=(1, 2, 3)),
        r"image_dimensions is \[1, 2, 3\]; expected \[1, 2\] or \[2, 3\], or for one dim",
    ),
    "rank of one image dim": (
        lambda: OUTPUT((8, 8, 1, 1, 1, 1), image_dimensions=(1,)),
        "has rank 6; expected 1 or 4",
    ),
    "kernel dims": (
        lambda: FILTER((3, 3, 1, 1), kernel_dimensions=(1, 2)),
        r"kernel_dimensions is \[1, 2\]; expected \[0, 1\] or \[2, 3\]",
    ),
    "kernel extents": (
        lambda: FILTER((3, 5, 1, 1)),
        "input axis 1 has extent 5; expected the kernel_size 3",
    ),
    "kernel of rank 2": (lambda: FILTER((3, 8)), "input axis 1 has extent 8"),
    "tile extents": (
        lambda: OUTPUT((8, 6, 1, 1, 1, 1)),
        "input axis 1 has extent 6; a tile has 8",
    ),
    "tile of rank 2": (lambda: INPUT((8, 9)), "input axis 1 has extent 9; a tile has 8"),
    "dynamic tile": (lambda: INPUT((8, "n")), "axis 1 is dynamic; a tile's extents are numbers"),
    "small image": (
        lambda: INPUT((1, 2, 8, 1)),
        "input axis 1 has extent 2; the kernel has 3",
    ),
    "sizes": (
        lambda: INPUT((1, 8, 8, 1), kernel_size=4),
        "no constants for output_tile_size 6 and kernel_size 4; there are for 2, 4 and 6, and for",
    ),
    "result's shape": (
        lambda: INPUT((1, 8, 8, 1), (8, 8, 1, 2, 1, 1)),
        r"output_shape is \[8, 8, 1, 2, 1, 1\]; expected \[8, 8, 1, 1, 1, 1\]",
    ),
    "result's rank": (
        lambda: FILTER((3, 3, 1, 1), (8, 8, 1)),
        r"output_shape is \[8, 8, 1\]; expected \[8, 8, 1, 1\]",
    ),
    "dtype": (
        lambda: INPUT((1, 8, 8, 1), dtype="i32"),
        "input has dtype int32; supported are float16",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_and_says_why(case):
    make, message = REFUSED[case]
    with pytest.raises(OpError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "shape", "attributes"),
    [
        (INPUT, (1, 9, 10, 3), {}),
        (INPUT, (1, 3, 9, 10), NCHW),
        (INPUT, (5, 7), {}),
        (FILTER, (3, 3, 2, 3), {}),
        (FILTER, (3, 2, 3, 3), {"kernel_dimensions": (2, 3)}),
        (OUTPUT, (8, 8, 1, 2, 1, 3), {}),
        (OUTPUT, (8, 8, 1, 2, 1, 3), NCHW),
    ],
)
def test_the_canonical_function_is_the_op(make, shape, attributes):
    op = make(shape, **attributes)
    source = np.random.default_rng(0).standard_normal(shape).astype("float32")
    want = registry.find(op.name).reference(op, {"input": source})["result"]
    library = tvm.compile(tvm.IRModule({op.entry: op.prim_func()}), target="llvm")
    result = tvm.runtime.tensor(np.zeros(want.shape, "float32"))
    library[op.entry](tvm.runtime.tensor(source), result)
    np.testing.assert_allclose(result.numpy(), want, atol=1e-3)
