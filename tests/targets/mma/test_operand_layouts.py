"""Layouts of matrix instructions' operands, made and recognised."""

import doctest
from dataclasses import replace

import pytest

from tvm_iree_ext.base.errors import LayoutError, TargetError
from tvm_iree_ext.layout.transform import broadcast, permute
from tvm_iree_ext.targets.mma import operand_layouts
from tvm_iree_ext.targets.mma.contraction_layouts import contraction_layouts
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_table
from tvm_iree_ext.targets.mma.operand_layouts import named_mma, operand_layout, operands_held


def test_examples():
    assert doctest.testmod(operand_layouts).failed == 0


def test_every_kind_knows_its_operands_of_any_tile_and_order():
    known = [one for one in mma_table().values() if one.kind in ("native", "virtual")]
    assert len(known) > 50
    for mma in known:
        for name, operand in mma.operands().items():
            if name not in ("lhs", "rhs", "acc"):
                continue
            layout = replace(operand.layout(), batch_tile=tuple(range(1, len(operand.dims) + 1)))
            turned = permute(layout, list(range(layout.rank))[::-1])
            for one in (layout, turned, broadcast(layout, (3,))):
                assert name in operands_held(mma, one)


def test_is_what_a_contraction_of_one_subgroup_has():
    mma = mma_kind("NV_MMA_SYNC_F32_16x8x16_F16")
    layouts = contraction_layouts(mma, "mnk", (32, 24, 48), (1, 1, 1))
    for name, shape in {"lhs": (32, 48), "rhs": (48, 24), "acc": (32, 24)}.items():
        assert operand_layout(mma, name, shape) == getattr(layouts, name)


def test_other_layouts_are_of_no_operand():
    mma = mma_kind("NV_MMA_SYNC_F32_16x8x16_F16")
    lhs = operand_layout(mma, "lhs", (16, 16))
    assert operands_held(mma, lhs) == ("lhs",)
    for field, value in {"element_tile": (1, 4), "thread_tile": (4, 8)}.items():
        assert operands_held(mma, replace(lhs, **{field: value})) == ()
    assert "lhs has outer_tile [2, 2], thread_tile [8, 4]" in (
        operand_layouts.why_not_held(mma, replace(lhs, element_tile=(1, 4))) or ""
    )


def test_attributes_name_instructions_or_are_others():
    name = "MFMA_F32_32x32x8_F16"
    for text in (name, f"#iree_gpu.mma_layout<{name}>", f"#iree_gpu.virtual_mma_layout< {name} >"):
        assert named_mma(text) is mma_kind(name)
    assert named_mma("#iree_gpu.data_tiled_mma_layout<intrinsic = x>") is named_mma(3) is None
    with pytest.raises(TargetError, match="mma kind 'MFMA' is unknown"):
        named_mma("#iree_gpu.mma_layout<MFMA>")


def test_refuses_what_no_operand_is():
    with pytest.raises(TargetError, match="operand is 'a'; expected one of lhs, rhs, acc"):
        operand_layout("MFMA_F32_16x16x16_F16", "a", (16, 16))
    with pytest.raises(LayoutError, match=r"the shape \[16\] has rank 1; lhs has rank 2"):
        operand_layout("MFMA_F32_16x16x16_F16", "lhs", (16,))
    with pytest.raises(LayoutError, match="acc is not held by columns"):
        operand_layout("NV_MMA_SYNC_F32_16x8x16_F16", "acc", (16, 8), column_major=True)
