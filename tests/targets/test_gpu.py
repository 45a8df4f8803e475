"""Chips: limits, and how many workgroups are resident."""

import doctest

import pytest
from tvm.target import Target, codegen

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.codegen.gpu.device_code import device_tools
from tvm_iree_ext.inspection.inspected_kernel import inspect_kernel
from tvm_iree_ext.targets import gpu
from tvm_iree_ext.targets.gpu import chip_names, gpu_chip, gpu_chips, occupancy
from tvm_iree_ext.targets.names import make_target


def test_examples_hold():
    assert doctest.testmod(gpu).failed == 0


@pytest.mark.parametrize("chip", gpu_chips(), ids=lambda chip: chip.name)
def test_every_chip_is_a_target(chip):
    target = make_target(f"{chip.kind}:{chip.name}")
    assert gpu_chip(target) == chip
    assert chip.max_lanes % chip.subgroup_size == 0
    assert chip.shared_memory_bytes <= chip.shared_memory_per_core_bytes
    for part in chip.parts:
        assert part.cores > 0
        assert part.peak_tflops["float16"] > part.bandwidth_tbs


def test_variants_have_the_limits_of_their_chip():
    plain, accelerated = gpu_chip("sm_90"), gpu_chip("sm_90a")
    assert (plain.name, accelerated.name) == ("sm_90", "sm_90a")
    assert plain.shared_memory_bytes == accelerated.shared_memory_bytes == 232448
    assert {"sm_90a", "gfx942", "gfx1200"} <= set(chip_names())


@pytest.mark.parametrize("name", chip_names("rocm"))
def test_comparisons_hold_constants_where_llvm_says_so(name):
    target = Target({"kind": "llvm", "mtriple": "amdgcn-amd-amdhsa-hcc", "mcpu": name})
    by_llvm = codegen.llvm_cpu_has_features("vop3-literal", target)
    assert gpu_chip(name).compares_with_constants == bool(by_llvm)


@pytest.mark.costly
@pytest.mark.skipif(
    not {"ptxas", "nvdisasm"} <= set(device_tools(make_target("cuda:sm_90"))),
    reason="no ptxas, nvdisasm",
)
@pytest.mark.parametrize("name", ["sm_89", "sm_90", "sm_100", "sm_120"])
def test_matrix_instructions_are_made_of_conversions_where_ptxas_does_so(name):
    kind = "NV_MMA_SYNC_F32_16x8x32_F8E4M3FN"
    assembly = inspect_kernel(f"mma:{kind}", f"cuda:{name}").assembly
    assert assembly is not None
    assert ("HMMA" in assembly) == ("f8e4m3fn" in gpu_chip(name).mma_by_conversion)


def test_unknown_chips_are_refused():
    with pytest.raises(TargetError, match="chip 'sm_37' is unknown; known are sm_80"):
        gpu_chip("sm_37")
    with pytest.raises(TargetError, match="llvm is not a GPU target"):
        gpu_chip(make_target("llvm"))


# By NVIDIA's occupancy calculator and AMD's: registers, shared bytes, lanes -> subgroups a SIMD.
@pytest.mark.parametrize(
    ("chip", "registers", "shared", "lanes", "subgroups", "limit"),
    [
        ("sm_80", 32, 0, 256, 16, "subgroups"),
        ("sm_80", 33, 0, 256, 12, "registers"),  # 40 a lane: 51 warps, 6 blocks of 8
        ("sm_80", 255, 0, 128, 2, "registers"),
        ("sm_80", 64, 82 * 1024, 256, 2, "shared memory"),
        ("sm_86", 32, 0, 32, 4, "workgroups"),
        ("gfx942", 128, 0, 256, 4, "registers"),
        ("gfx942", 129, 0, 256, 3, "registers"),
        ("gfx942", 64, 65536, 256, 1, "shared memory"),
        ("gfx1100", 128, 0, 256, 10, "registers"),
        ("gfx1100", 96, 0, 256, 16, "subgroups"),
    ],
)
def test_occupancy(chip, registers, shared, lanes, subgroups, limit):
    found = occupancy(gpu_chip(chip), registers=registers, shared_memory_bytes=shared, lanes=lanes)
    assert (found.subgroups_per_simd, found.limit) == (subgroups, limit)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"registers": 300}, "300 registers for each of 256 lanes; a lane has at most 255"),
        ({"registers": 255, "lanes": 1024}, "the workgroup's subgroups share"),
        ({"shared_memory_bytes": 200000}, "200000 bytes of shared memory; .* at most 166912"),
        ({"lanes": 2048}, "2048 lanes; a workgroup has at most 1024"),
    ],
)
def test_what_does_not_fit_is_refused(asked, message):
    plain = {"registers": 32, "shared_memory_bytes": 0, "lanes": 256}
    with pytest.raises(TargetError, match=message):
        occupancy(gpu_chip("sm_80"), **(plain | asked))
