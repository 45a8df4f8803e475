"""Lines on GPUs: who takes which elements, and configs that fit every chip."""

import pytest

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.gpu.lines.line_config import line_config, line_space
from tvm_iree_ext.schedules.gpu.lines.line_plan import LinePlan, LineShape
from tvm_iree_ext.targets.names import make_target

NAMES = ("cuda:sm_80", "rocm:gfx942", "rocm:gfx1100")
SM_80 = make_target(NAMES[0])
SHAPES = [
    (TensorType(shape, dtype), dimension)
    for shape, dimension in (
        ((1, 1), 1), ((7, 300), 1), ((7, 300), 0), ((4096, 4096), 1), ((1 << 22,), 0),
        (("n", 5), 0), ((5, "n"), 1), ((3, "n", 4), 1),
    )
    for dtype in ("int8", "float32", "float64")
]  # fmt: skip


def planned(shape, target, config):
    return LinePlan.of(shape, target, ConfigCheck("gpu.lines", config))


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_heuristic_fits_and_holds_each_element_once(name, in_order):
    target = make_target(name)
    for kind, dimension in SHAPES:
        shape = LineShape.of(kind, dimension, in_order, (kind.dtype,))
        plan = planned(shape, target, line_config(shape, target))
        assert plan.layout.undistributed_shape == (plan.lines, plan.positions)
        assert plan.serial or not in_order


def test_the_space_of_a_shape_begins_with_its_heuristic():
    shape = LineShape.of(TensorType((64, 1000), "float32"), 1, False, ("float32",))
    space = line_space(shape, SM_80, lambda config: ConfigCheck("gpu.lines", config))
    assert space.heuristic == line_config(shape, SM_80)


def test_columns_are_refused_as_rows():
    rows, columns = (
        LineShape.of(TensorType(shape, "float32"), 0, False, ("float32",))
        for shape in ((1000,), (1000, 64))
    )
    config = line_config(rows, SM_80)
    assert config.algorithm == "rows"
    with pytest.raises(ScheduleError, match="algorithm is 'rows'; expected 'columns'"):
        planned(columns, SM_80, config)
