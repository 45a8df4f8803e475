"""Kernels loaded and launched: for which chip, with how many lanes, and how much memory."""

import numpy as np
import pytest

from tvm_iree_ext.emulator.driver import EmulatedDevice
from tvm_iree_ext.emulator.ptx.running.launch import load_ptx

TEXT = """.version 9.0
.target {chip}
.address_size 64
.visible .entry k(.param .u64 a, .param .align 64 .b8 map[128], .param .f32 f) {{ ret; }}
"""


@pytest.mark.parametrize(
    ("target", "chip", "is_for_it"),
    [
        ("sm_80", "sm_80", True), ("sm_80", "sm_90a", True), ("sm_90", "sm_80", False),
        ("sm_90a", "sm_90a", True), ("sm_90a", "sm_100", False), ("sm_90a", "sm_90", False),
    ],
)  # fmt: skip
def test_ptx_is_for_its_chip_and_later_ones(target, chip, is_for_it):
    image = TEXT.format(chip=target).encode() + b"\0"
    assert (load_ptx(image, EmulatedDevice("cuda", chip)) is not None) == is_for_it


def test_a_cubin_is_left_to_others():
    assert load_ptx(b"\x7fELF", EmulatedDevice("cuda", "sm_80")) is None


def test_arguments_have_the_sizes_of_the_parameters():
    kernels = load_ptx(TEXT.format(chip="sm_80").encode(), EmulatedDevice("cuda", "sm_80"))
    assert list(kernels["k"].argument_sizes) == [8, 128, 4]


def test_more_lanes_than_a_kernel_is_made_for_are_found(run_ptx):
    _, findings = run_ptx("", np.zeros(1, "u4"), lanes=1056, check=False)
    assert [finding.message for finding in findings] == ["1056 lanes; it is made for 1024"]


def test_more_shared_memory_than_the_chip_has_is_found(run_ptx):
    shared = ".extern .shared .align 16 .b8 d[];"
    body = "mov.u64 %rd5, d; st.shared.u32 [%rd5], %r0;"
    most = 163 << 10  # CUDA C++ Programming Guide, *Technical Specifications*: 8.0
    named = {"functions": shared, "chip": "sm_80", "check": False}
    assert run_ptx(body, np.zeros(1, "u4"), dynamic=most, **named)[1] == ()
    _, findings = run_ptx(body, np.zeros(1, "u4"), dynamic=most + 16, **named)
    assert findings[0].kind == "resource"


def test_special_registers_say_where_a_lane_is(run_ptx):
    body = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;
    mov.u32 %r4, %laneid; mov.u32 %r5, %warpid; mov.u32 %r6, %lanemask_lt; popc.b32 %r6, %r6;
    mad.lo.u32 %r7, %r5, 100, %r4; mad.lo.u32 %r7, %r6, 10000, %r7;
    mad.wide.u32 %rd9, %r3, 4, %rd0; st.global.u32 [%rd9], %r7;"""
    (got,) = run_ptx(body, np.zeros(3 * 64, "u4"), lanes=64, groups=3)
    lane = np.arange(64)
    want = lane // 32 * 100 + lane % 32 * 10001
    np.testing.assert_array_equal(got, np.tile(want, 3))
