"""How a contraction's result and its constant factors lie best on a CPU."""

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.schedules.cpu.contraction.contraction_constants import constant_panels
from tvm_iree_ext.schedules.cpu.contraction.contraction_layouts import is_better_moved
from tvm_iree_ext.targets.names import make_target

ZEN_4 = make_target({"kind": "llvm", "mcpu": "znver4", "num-cores": 1})
X, W = "(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)"


def products(rows, depth, columns):
    """Rows times columns, as rows and as columns."""
    shapes = (rows, depth), (depth, columns)
    return [
        ops.contraction(*shapes, indexing_maps=[X, W, f"(m, n, k) -> ({end})"])
        for end in ("m, n", "n, m")
    ]


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "is_moved"),
    [
        (3136, 144, 24, True),
        (3136, 24, 144, False),
        (64, 512, 512, False),
        ("rows", 144, 24, False),
    ],
)
def test_a_result_much_smaller_than_what_would_be_packed_is_moved(rows, depth, columns, is_moved):
    assert is_better_moved(*products(rows, depth, columns)) == is_moved


def test_a_result_whose_columns_stay_last_is_written_in_any_order():
    shapes = (8, 64, 32), (8, 32, 48)
    maps = ["(b, m, n, k) -> (b, m, k)", "(b, m, n, k) -> (b, k, n)"]
    ends = ["(b, m, n, k) -> (b, m, n)", "(b, m, n, k) -> (m, b, n)"]
    assert not is_better_moved(
        *(ops.contraction(*shapes, indexing_maps=[*maps, end]) for end in ends)
    )


@pytest.mark.parametrize("rows", [32, 784, "rows"])
def test_a_constant_has_no_panels_beside_many_rows_that_are_packed(rows):
    """The rows would be packed for each panel."""
    in_rows = ops.contraction((rows, 64), (64, 96), indexing_maps=[X, W, "(m, n, k) -> (m, n)"])
    transposed = ops.contraction(
        (64, rows), (64, 96), indexing_maps=["(m, n, k) -> (k, m)", W, "(m, n, k) -> (m, n)"]
    )
    assert constant_panels(in_rows, "rhs", ZEN_4) == 48
    assert constant_panels(transposed, "rhs", ZEN_4) == (48 if rows == 32 else None)
