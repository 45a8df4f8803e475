import pytest

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.targets.mma.fma_kinds import fma_kind, fma_name
from tvm_iree_ext.targets.mma.mma_table import mma_kind


@pytest.mark.parametrize("lhs_along", ["K", "M"])
@pytest.mark.parametrize("rhs_along", ["K", "N"])
@pytest.mark.parametrize("size", [32, 64])
def test_every_element_has_its_lanes(lhs_along, rhs_along, size):
    for dtype in ("f32", "f64"):
        for rows, columns in ((1, 1), (2, 8), (8, 4)):
            kind = fma_kind(fma_name(dtype, rows, columns, size, lhs_along, rhs_along))
            assert kind.acc.elements_per_lane == rows * columns
            for operand in (kind.lhs, kind.rhs, kind.acc):
                held = operand.coordinates(size).reshape(-1, 2).tolist()
                assert len({tuple(at) for at in held}) * operand.lane_replication == len(held)
                assert [max(at) + 1 for at in zip(*held, strict=True)] == list(operand.extents)


def test_a_kind_is_found_by_its_name_among_instructions():
    name = fma_name("f32", 8, 8, 32, "K", "N")
    assert name == "FMA_F32_32x64x4_KN"
    assert mma_kind(name) is fma_kind(name)


@pytest.mark.parametrize("name", ["FMA_F32_32x64x4", "FMA_F32_33x64x4_KN", "FMA_F32_32x64x2_KN"])
def test_refuses_other_names(name):
    with pytest.raises(TargetError, match=f"mma kind '{name}'"):
        fma_kind(name)
