"""Asynchronous copies arrive at the wait that covers them, and no earlier, or at once."""

import numpy as np
import pytest

SHARED = ".shared .align 128 .b8 m[4096]; .shared .align 8 .b8 bar[16];"
COPY = """mov.u64 %rd5, m; mad.wide.u32 %rd6, %r0, 16, %rd5; mad.wide.u32 %rd7, %r0, 16, %rd0;
cp.async.cg.shared.global [%rd6], [%rd7], 16{size}; {wait}
ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [%rd6];
mad.wide.u32 %rd9, %r0, 16, %rd1; st.global.v4.u32 [%rd9], {{%r1, %r2, %r3, %r4}};"""
WAIT = "cp.async.commit_group; cp.async.wait_group 0;"
GIVEN = np.arange(256, dtype=np.uint32)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("wait", [WAIT, "cp.async.wait_all;"])
def test_a_copy_has_arrived_after_the_wait(run_ptx, order, wait):
    body = COPY.format(size="", wait=wait)
    _, got = run_ptx(body, GIVEN, np.zeros(256, "u4"), lanes=64, shared=SHARED, order=order)
    np.testing.assert_array_equal(got, GIVEN)


@pytest.mark.parametrize(
    "wait", ["", "cp.async.wait_group 0;", "cp.async.commit_group; cp.async.wait_group 1;"]
)
def test_a_wait_that_does_not_cover_a_copy_is_seen(run_ptx, wait):
    body = COPY.format(size="", wait=wait)
    _, findings = run_ptx(body, GIVEN, np.zeros(256, "u4"), lanes=64, shared=SHARED, check=False)
    assert [finding.kind for finding in findings] == ["uninitialised"]


def test_bytes_that_are_not_read_are_zeros(run_ptx):
    start = "setp.lt.u32 %p0, %r0, 30; selp.b32 %r9, 16, 4, %p0;"
    body = start + COPY.format(size=", %r9", wait=WAIT)
    given = GIVEN[: 63 * 4 + 1]  # the last lane may read no more
    _, got = run_ptx(body, given, np.zeros(256, "u4"), lanes=64, shared=SHARED)
    want = GIVEN.reshape(-1, 4).copy()
    want[30:, 1:] = 0
    np.testing.assert_array_equal(got, want.reshape(-1))


def test_a_copy_reads_no_byte_behind_its_array(run_ptx):
    body = COPY.format(size="", wait=WAIT)
    _, findings = run_ptx(
        body, GIVEN[:-1], np.zeros(256, "u4"), lanes=64, shared=SHARED, check=False
    )
    assert findings[0].kind == "out of bounds"


def test_a_wait_leaves_the_newest_groups(run_ptx):
    copies = "".join(
        f"add.u64 %rd10, %rd6, {n * 1024}; cp.async.ca.shared.global [%rd10], [%rd7], 16;"
        "cp.async.commit_group;"
        for n in range(3)
    )
    start = "mov.u64 %rd5, m; mad.wide.u32 %rd6, %r0, 16, %rd5; mad.wide.u32 %rd7, %r0, 16, %rd0;"
    for left, place, found in ((1, 1, []), (1, 2, ["uninitialised"]), (2, 0, []), (0, 2, [])):
        body = (
            f"{start}{copies} cp.async.wait_group {left}; ld.shared.u32 %r1, [%rd6+{place * 1024}];"
        )
        _, findings = run_ptx(body, GIVEN, lanes=64, shared=SHARED, check=False)
        assert [finding.kind for finding in findings] == found


BARRIER = """mov.u64 %rd11, bar; setp.eq.u32 %p1, %r0, 0;
@%p1 mbarrier.init.shared::cta.b64 [%rd11], 64; bar.sync 0;
mov.u64 %rd5, m; mad.wide.u32 %rd6, %r0, 16, %rd5; mad.wide.u32 %rd7, %r0, 16, %rd0;
cp.async.cg.shared.global [%rd6], [%rd7], 16;
cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%rd11];
{ .reg .pred P1; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 P1, [%rd11], 0; @P1 bra DONE;
bra AGAIN; DONE: }
xor.b32 %r8, %r0, 32; mad.wide.u32 %rd6, %r8, 16, %rd5; ld.shared.u32 %r1, [%rd6];
mad.wide.u32 %rd9, %r0, 4, %rd1; st.global.u32 [%rd9], %r1;"""


@pytest.mark.parametrize("order", [0, 1])
def test_copies_arrive_at_a_barrier_in_memory(run_ptx, order):
    _, got = run_ptx(BARRIER, GIVEN, np.zeros(64, "u4"), lanes=64, shared=SHARED, order=order)
    np.testing.assert_array_equal(got, (np.arange(64) ^ 32) * 4)


def test_a_phase_that_does_not_end_is_found(run_ptx):
    body = BARRIER.replace("[%rd11], 64", "[%rd11], 65")
    _, findings = run_ptx(body, GIVEN, np.zeros(64, "u4"), lanes=64, shared=SHARED, check=False)
    assert [finding.message for finding in findings] == ["lanes wait for ever"]


def test_phases_follow_one_another(run_ptx):
    """A warp that produces and one that takes, by two barriers, four times."""
    body = """mov.u64 %rd11, bar; add.u64 %rd12, %rd11, 8; mov.u64 %rd5, m;
    setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [%rd11], 32;
    @%p1 mbarrier.init.shared::cta.b64 [%rd12], 32; bar.sync 0;
    mov.u32 %r5, 0; and.b32 %r6, %r0, 31; mad.wide.u32 %rd6, %r6, 4, %rd5; mov.u32 %r1, 0;
    setp.lt.u32 %p0, %r0, 32; @%p0 bra TAKE;
    GIVE: and.b32 %r7, %r5, 1; xor.b32 %r7, %r7, 1;
    FREE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%rd12], %r7; @!%p2 bra FREE;
    mad.lo.u32 %r8, %r5, 100, %r6; st.shared.u32 [%rd6], %r8;
    mbarrier.arrive.shared::cta.b64 _, [%rd11];
    add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 4; @%p3 bra GIVE; ret;
    TAKE: and.b32 %r7, %r5, 1;
    FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%rd11], %r7; @!%p2 bra FULL;
    ld.shared.u32 %r8, [%rd6]; add.u32 %r1, %r1, %r8;
    mbarrier.arrive.shared::cta.b64 _, [%rd12];
    add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 4; @%p3 bra TAKE;
    mad.wide.u32 %rd9, %r0, 4, %rd0; st.global.u32 [%rd9], %r1;"""
    for order in (0, 1):
        (got,) = run_ptx(body, np.zeros(32, "u4"), lanes=64, shared=SHARED, order=order)
        np.testing.assert_array_equal(got, 600 + 4 * np.arange(32))
