"""Loads and stores of every space, and what is wrong with those that are."""

import numpy as np
import pytest

LANE = np.arange(64, dtype=np.uint32)
SHARED = ".shared .align 16 .b8 m[256];"


def messages(findings):
    return [(finding.kind, finding.message) for finding in findings]


def test_vectors_are_neighbours(run_ptx):
    given = np.arange(256, dtype=np.uint32)
    body = """mad.wide.u32 %rd9, %r0, 16, %rd0; mad.wide.u32 %rd10, %r0, 16, %rd1;
    ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd9];
    st.global.v4.u32 [%rd10], {%r4, %r3, %r2, %r1};"""
    _, got = run_ptx(body, given, np.zeros(256, "u4"), lanes=64)
    np.testing.assert_array_equal(got, given.reshape(-1, 4)[:, ::-1].reshape(-1))


def test_a_vectors_last_elements_may_be_no_arrays(run_ptx):
    """NVRTC makes a vector of three loads and takes no notice of the fourth element."""
    body = """ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0+16];
    st.global.v2.u32 [%rd1], {%r3, %r4};"""
    _, got = run_ptx(body, np.arange(7, dtype="u4"), np.zeros(2, "u4"))
    assert got[0] == 6
    _, findings = run_ptx(body, np.arange(4, dtype="u4"), np.zeros(2, "u4"), check=False)
    assert [finding.kind for finding in findings] == ["out of bounds"]


def test_bytes_are_extended_by_their_type(run_ptx):
    given = np.array([255, 1, 128, 127], "u1")
    body = """ld.global.s8 %r1, [%rd0]; ld.global.u8 %rs1, [%rd0+2]; cvt.u32.u16 %r2, %rs1;
    st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r2;"""
    assert run_ptx(body, given, np.zeros(2, "i4"))[1].tolist() == [-1, 128]


def test_generic_addresses_are_of_their_space(run_ptx):
    local = ".local .align 16 .b8 depot[16];"
    body = """mov.u64 %rd5, m; cvta.shared.u64 %rd6, %rd5; mad.wide.u32 %rd6, %r0, 4, %rd6;
    mov.u64 %rd7, depot; cvta.local.u64 %rd8, %rd7;
    add.u32 %r1, %r0, 5; st.u32 [%rd6], %r1; ld.shared.u32 %r2, [m+4];
    st.u32 [%rd8+8], %r0; ld.local.u32 %r3, [%rd7+8]; add.u32 %r2, %r2, %r3;
    mad.wide.u32 %rd9, %r0, 4, %rd0; st.u32 [%rd9], %r2;"""
    (got,) = run_ptx(body, np.zeros(64, "u4"), lanes=64, shared=SHARED + local)
    np.testing.assert_array_equal(got[:32], LANE[:32] + 6)


def test_what_is_outside_of_an_allocation_is_found(run_ptx):
    body = "mad.wide.u32 %rd9, %r0, 4, %rd0; st.global.u32 [%rd9], %r0;"
    _, findings = run_ptx(body, np.zeros(31, "u4"), check=False)
    ((kind, message),) = messages(findings)
    assert kind == "out of bounds"
    assert "byte 124 of allocation 0, which has 124" in message
    assert findings[0].where.lane == 31


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("st.shared.u32 [m+256], %r0;", "out of bounds"),
        ("st.shared.u32 [m+2], %r0;", "misaligned"),
        ("st.shared.v2.u32 [m+4], {%r0, %r0};", "misaligned"),
        ("ld.shared.u32 %r1, [m+64];", "uninitialised"),
        ("ld.local.u32 %r1, [depot+16];", "out of bounds"),
        ("ld.global.u32 %r1, [%rd0+2];", "misaligned"),
        ("mov.u64 %rd4, 64; ld.global.u32 %r1, [%rd4];", "out of bounds"),
    ],
)
def test_what_is_wrong_with_an_access_is_found(run_ptx, line, kind):
    named = {"shared": SHARED + ".local .align 16 .b8 depot[16];", "check": False}
    _, findings = run_ptx(line, np.zeros(64, "u4"), **named)
    assert [finding.kind for finding in findings] == [kind]
    assert findings[0].instruction == line.split(";")[-2].strip()


def test_dynamic_shared_memory_is_what_the_launch_gives(run_ptx):
    body = "mov.u64 %rd5, d; mad.wide.u32 %rd6, %r0, 4, %rd5; st.shared.u32 [%rd6], %r0;"
    shared = ".extern .shared .align 16 .b8 d[];"
    text = body.replace(shared, "")
    assert run_ptx(text, np.zeros(4, "u4"), dynamic=128, functions=shared)
    _, findings = run_ptx(text, np.zeros(4, "u4"), dynamic=124, functions=shared, check=False)
    assert messages(findings)[0][0] == "out of bounds"


@pytest.mark.parametrize(
    ("name", "kind", "value", "want"),
    [
        ("add.u32", "u4", "%r0", 64 * 63 // 2 + 7),
        ("max.s32", "i4", "%r0", 63),
        ("min.s32", "i4", "%r0", 0),
        ("xor.b32", "u4", "%r0", 7),
        ("exch.b32", "u4", "9", 9),
        ("inc.u32", "u4", "200", 71),
        ("add.f32", "f4", "0f3F800000", 71),
    ],
)
def test_atomic_updates_come_one_after_another(run_ptx, name, kind, value, want):
    start = np.array([7], kind)
    line = f"atom.global.{name} %r1, [%rd0], {value};"
    if "f32" in name:
        line = f"atom.global.{name} %f1, [%rd0], {value};"
    (got,) = run_ptx(line, start, lanes=64)
    assert got[0] == want


def test_one_lane_alone_compares_and_swaps(run_ptx):
    body = """atom.global.cas.b32 %r1, [%rd0], 0, 5;
    setp.eq.u32 %p0, %r1, 0; @%p0 red.global.add.u32 [%rd0+4], 1;"""
    (got,) = run_ptx(body, np.zeros(2, "u4"), lanes=64)
    assert got.tolist() == [5, 1]


def test_halves_are_added_in_pairs(run_ptx):
    body = "mov.u32 %r1, 0x3c004000; red.global.add.noftz.f16x2 [%rd0], %r1;"
    (got,) = run_ptx(body, np.zeros(2, "f2"))
    assert got.tolist() == [64, 32]


def test_constants_of_the_module_are_read(run_ptx):
    table = ".const .align 4 .u32 table[4] = {3, 1, 4, 1};"
    body = """and.b32 %r1, %r0, 3; mov.u64 %rd5, table; mad.wide.u32 %rd5, %r1, 4, %rd5;
    ld.const.u32 %r2, [%rd5]; mad.wide.u32 %rd9, %r0, 4, %rd0; st.global.u32 [%rd9], %r2;"""
    (got,) = run_ptx(body, np.zeros(32, "u4"), functions=table)
    np.testing.assert_array_equal(got, np.tile([3, 1, 4, 1], 8))
