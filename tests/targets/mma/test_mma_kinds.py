"""The MMA table: its laws, and what it says of well-known instructions."""

import copy
import doctest
import json
from importlib.resources import files

import numpy as np
import pytest

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.layout.distribute import coordinates
from tvm_iree_ext.targets.mma import mma_kinds as mma_module
from tvm_iree_ext.targets.mma.mma_kinds import read_row
from tvm_iree_ext.targets.mma.mma_table import mma_kind, mma_kinds, mma_table
from tvm_iree_ext.targets.mma.mma_table_checks import check_laws
from tvm_iree_ext.targets.names import make_target

ROWS = json.loads(files("tvm_iree_ext.targets.mma").joinpath("mma_table.json").read_text())


def test_examples_hold():
    assert doctest.testmod(mma_module).failed == 0


def test_the_table_has_every_kind_of_row():
    kinds = [row.kind for row in mma_table().values()]
    count = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    assert count == {
        "native": 123, "virtual": 8, "virtual_sparse": 14, "scaled": 6, "opaque": 2,
        "warpgroup": 19, "tensor_memory": 70, "scaled_tensor_memory": 12,
    }  # fmt: skip


@pytest.mark.parametrize("row", mma_table().values(), ids=lambda row: row.name)
def test_registers_in_storage_order_are_those_of_the_layout(row):
    """A lane's registers in the instruction's order, reordered, are IREE's distributed vector."""
    for operand in row.operands().values():
        if operand.element_split_lanes > 1:
            continue
        size = row.subgroup_size
        groups = row.num_subgroups
        held = operand.coordinates(size * groups)
        stored = coordinates(operand.layout(), groups, size, packed=True)
        stored = stored.reshape(held.shape)
        np.testing.assert_array_equal(stored[:, list(operand.storage_order)], held)


def test_the_block_major_accumulator_is_not_in_storage_order():
    acc = mma_kind("MFMA_F32_32x32x4x2B_F16").acc
    assert acc.storage_order[:6] == (0, 1, 2, 3, 8, 9)  # o1 runs above e1, and below e0
    assert sorted(acc.storage_order) == list(range(32))
    plain = [row for row in mma_table().values() if row.kind == "native" and row.vendor == "amd"]
    odd = [
        row.name for row in plain if row.acc.storage_order != tuple(sorted(row.acc.storage_order))
    ]
    assert odd
    assert all("2B" in name and "32x32" in name for name in odd)


@pytest.mark.parametrize(
    ("name", "operand", "lane", "element", "coordinate"),
    [
        ("MFMA_F32_32x32x8_F16", "acc", 37, 4, (12, 5)),
        ("MFMA_F32_16x16x16_F16", "lhs", 37, 1, (5, 9)),
        ("MFMA_F64_16x16x4_F64", "acc", 17, 2, (9, 1)),
        ("WMMAR3_F32_16x16x16_F16", "lhs", 21, 7, (5, 7)),
        ("WMMAR3_F32_16x16x16_F16", "acc", 21, 3, (7, 5)),
        ("WMMAR4_F32_16x16x16_F16", "acc", 21, 3, (11, 5)),
        ("NV_MMA_SYNC_F32_16x8x16_F16", "acc", 5, 3, (9, 3)),
        ("NV_MMA_SYNC_F32_16x8x16_F16", "rhs", 5, 3, (11, 1)),
        ("NV_MMA_SYNC_I32_16x8x32_I8", "lhs", 5, 9, (1, 21)),
        ("NV_WGMMA_F32_64x64x16_F16", "acc", 32 + 5, 6, (25, 10)),
        ("NV_TCGEN05_F32_128x64x16_F16", "acc", 64 + 5, 6, (69, 6)),
        ("NV_TCGEN05_F32_256x64x16_F16", "acc", 128 + 64 + 5, 6, (197, 6)),
    ],
)
def test_documented_places(name, operand, lane, element, coordinate):
    row = mma_kind(name)
    held = getattr(row, operand).coordinates(row.subgroup_size * row.num_subgroups)
    assert tuple(held[lane, element]) == coordinate


def test_lanes_that_share_a_run_hold_all_lanes():
    """Half of the lanes by the thread tile, and two lanes for each run of K."""
    for row in mma_table().values():
        if row.kind == "virtual_sparse":
            assert np.prod(row.lhs.thread) == 32
            assert row.lhs.element_split_lanes == 2
            run = row.lhs.elements_per_lane
            held = row.lhs.coordinates(64)
            assert (held[0, :, 0] == 0).all()
            assert held[0, :, 1].tolist() == list(range(run))
            assert held[1, :, 1].tolist() == list(range(run, 2 * run))


def _broken(name, change):
    row = copy.deepcopy(next(row for row in ROWS["intrinsics"] if row["name"] == name))
    change(row)
    return read_row(row)


MFMA, NVIDIA = "MFMA_F32_16x16x16_F16", "NV_MMA_SYNC_F32_16x8x16_F16"
TENSOR, PAIR = "NV_TCGEN05_F32_128x64x16_F16", "NV_TCGEN05_F32_256x64x16_F16"
ALONE, PAIRED = (f"tcgen05.mma.cta_group::{group}.kind::f16" for group in (1, 2))
SCALED = "NV_TCGEN05_SCALE_F32_128x64x64_B32"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (MFMA, lambda r: r["operands"]["lhs"].update(thread=[8, 4]), "lhs: extents are"),
        (MFMA, lambda r: r["operands"]["lhs"].update(tstrides=[1, 8]), "lhs: .*overlapping"),
        (MFMA, lambda r: r["operands"]["acc"].update(lane_replication=2), "2 of each"),
        (MFMA, lambda r: r["operands"]["acc"].update(elements_per_lane=8), "4 elements in a"),
        (MFMA, lambda r: r["operands"]["rhs"].update(regs32_per_lane=4), "64 bits in 4 registers"),
        (MFMA, lambda r: r["operands"]["rhs"].update(tstrides=[1, 4]), "K: outer, thread"),
        (MFMA, lambda r: r["operands"]["lhs"].update(dtype="bf16"), "dtype bf16; the row says f16"),
        (MFMA, lambda r: r["operands"]["lhs"].update(reg_order=["o0", "e0"]), "is no order of"),
        (MFMA, lambda r: r["operands"].update(rhs=None), "operands: one is missing"),
        (MFMA, lambda r: r["intrinsic"].update(llvm=None), "no LLVM intrinsic"),
        (MFMA, lambda r: r["intrinsic"].update(isa=["v_mfma_f32_4x4x4f16"]), "is not of shape"),
        (NVIDIA, lambda r: r["intrinsic"].update(ptx=None), "ptx is None"),
        (NVIDIA, lambda r: r.update(acc_colmajor_by_operand_swap=True), "lhs has .*rhs has"),
        (TENSOR, lambda r: r.update(m=64), "acc: extents are"),
        (TENSOR, lambda r: r.update(k=32), "shape: K is 32 bytes"),
        (TENSOR, lambda r: r["intrinsic"].update(ptx=PAIRED), "M is 256, and N a multiple of 32"),
        (PAIR, lambda r: r["intrinsic"].update(ptx=ALONE), "M is 128, and N a multiple of 16"),
        (TENSOR, lambda r: r["operands"].update(lhs=r["operands"]["acc"]), "operands: one is"),
        (SCALED, lambda r: r.update(a="f8e4m3fn"), "shape: K is 32 bytes"),
        (SCALED, lambda r: r.update(scale_block=16), "lhs_scale: 2 blocks of 16; K is 64"),
        (
            SCALED,
            lambda r: r["intrinsic"].update(ptx=r["intrinsic"]["ptx"].replace("2X", "4X")),
            "lhs_scale: 2 blocks of 32; K is 64, and .*4X",
        ),
        (
            SCALED,
            lambda r: r["operands"]["rhs_scale"].update(regs32_per_lane=1),
            "rhs_scale: 32 bits in 1 registers; expected 2",
        ),
        ("VMFMA_F32_16x16x32_F16", lambda r: r["composed_of"].update(count=3), "3 calls of K 16"),
        (
            "VDMFMA_F32_8x16x64x2_F16",
            lambda r: r["operands"]["lhs"].pop("element_split_lanes"),
            "32 lanes with different elements, 1 of each; a subgroup has 64",
        ),
        (
            "WMMAR4_F32_16x16x16_F16",
            lambda r: r["hw_lane_k_map"].update(outer=[1, 4]),
            "hw_lane_k_map: extents",
        ),
        (
            "NV_WMMA_F32_16x16x16_F16",
            lambda r: r.update(operands={"lhs": ROWS["intrinsics"][88]["operands"]["acc"]}),
            "an opaque kind",
        ),
    ],
)  # fmt: skip
def test_rows_that_break_a_law_are_refused(name, change, message):
    with pytest.raises(TargetError, match=f"mma_layouts.json: {name}: .*{message}"):
        check_laws(_broken(name, change), mma_table())


def test_kinds_of_a_chip():
    names = [row.name for row in mma_kinds("gfx942")]
    assert names[0].startswith("MFMA_F32_16x16x32_F8")
    assert "B_" in names[-1]  # blocked kinds last
    assert "MFMA_I32_16x16x16_I8" not in names
    assert not mma_kinds("sm_90", ("warpgroup",))
    assert len(mma_kinds("sm_90a", ("warpgroup",))) == 19
    assert not mma_kinds("sm_100", ("tensor_memory",))
    assert len(mma_kinds("sm_100a", ("tensor_memory",))) == 70
    for chip in ("sm_100a", "sm_103a", "sm_110a"):
        assert len(mma_kinds(chip, ("scaled_tensor_memory",))) == 12
    assert not mma_kinds("sm_120a", ("scaled_tensor_memory",))
    wave64 = make_target("rocm:gfx1100@wave64")
    assert [row.name for row in mma_kinds(wave64)] == ["WMMAR3_F32_16x16x16_F16_W64"]
    assert len(mma_kinds(make_target("rocm:gfx1100"))) == 6


def test_unknown_kinds_are_refused():
    says = "kind 'MFMA_F32_5x5x5_F16' is unknown; did you mean 'MFMA"
    with pytest.raises(TargetError, match=says):
        mma_kind("MFMA_F32_5x5x5_F16")
