"""Which of a window's elements lie next to each other in memory."""

from tvm_iree_ext.bench.cases.im2col import im2col_case
from tvm_iree_ext.schedules.shared.im2col_windows import segment_dims


def test_rows_of_pixels_are_runs():
    assert segment_dims(im2col_case((1, 10, 10, 8), 3).op) == 1
