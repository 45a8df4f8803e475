"""Chips: limits, and how many workgroups are resident."""

import doctest

import pytest

from tvm_iree_ext.base.errors import TargetError
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
