"""Barriers: warps wait, in two orders; what is not waited for is seen."""

import numpy as np
import pytest

from tvm_iree_ext.emulator.ptx.running import workgroups

SHARED = ".shared .align 16 .b8 m[1024];"
# Each lane writes its number, and reads that of the lane 32 further on.
EXCHANGE = """mov.u64 %rd5, m; mad.wide.u32 %rd6, %r0, 4, %rd5; st.shared.u32 [%rd6], %r0;
{barrier}
add.u32 %r2, %r0, 32; and.b32 %r2, %r2, 127; mad.wide.u32 %rd6, %r2, 4, %rd5;
ld.shared.u32 %r1, [%rd6]; mad.wide.u32 %rd9, %r0, 4, %rd0; st.global.u32 [%rd9], %r1;"""
LANE = np.arange(128)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    "barrier", ["bar.sync 0;", "barrier.sync 3, 128;", "barrier.cta.sync.aligned 1;"]
)
def test_a_barrier_makes_stores_seen(run_ptx, barrier, order):
    body = EXCHANGE.format(barrier=barrier)
    (got,) = run_ptx(body, np.zeros(128, "u4"), lanes=128, shared=SHARED, order=order)
    np.testing.assert_array_equal(got, (LANE + 32) % 128)


@pytest.mark.parametrize("order", [0, 1])
def test_a_missing_barrier_is_seen(run_ptx, order):
    _, findings = run_ptx(
        EXCHANGE.format(barrier=""), np.zeros(128, "u4"), lanes=128, shared=SHARED, order=order,
        check=False,
    )  # fmt: skip
    assert [finding.kind for finding in findings] == ["uninitialised"]


def test_workgroups_have_barriers_of_their_own(run_ptx):
    body = EXCHANGE.format(barrier="bar.sync 0;").replace("mad.wide.u32 %rd9, %r0", "{own}")
    own = "mov.u32 %r5, %ctaid.x; mad.lo.u32 %r6, %r5, 128, %r0; mad.wide.u32 %rd9, %r6"
    body = body.replace("{own}", own)
    (got,) = run_ptx(body, np.zeros(5 * 128, "u4"), lanes=128, shared=SHARED, groups=5)
    np.testing.assert_array_equal(got, np.tile((LANE + 32) % 128, 5))


def test_those_who_bring_do_not_wait(run_ptx):
    """Two warps arrive at a barrier for which the other two wait."""
    body = """mov.u64 %rd5, m; setp.lt.u32 %p0, %r0, 64; @%p0 bra PRODUCE;
    barrier.sync 1, 128; sub.u32 %r2, %r0, 64; mad.wide.u32 %rd6, %r2, 4, %rd5;
    ld.shared.u32 %r1, [%rd6]; mad.wide.u32 %rd9, %r2, 4, %rd0; st.global.u32 [%rd9], %r1; ret;
    PRODUCE: mad.wide.u32 %rd6, %r0, 4, %rd5; st.shared.u32 [%rd6], %r0; barrier.arrive 1, 128;"""
    for order in (0, 1):
        (got,) = run_ptx(body, np.zeros(64, "u4"), lanes=128, shared=SHARED, order=order)
        np.testing.assert_array_equal(got, np.arange(64))


def test_lanes_that_wait_for_ever_are_found(run_ptx):
    body = "setp.lt.u32 %p0, %r0, 64; @%p0 bra OUT; bar.sync 0; OUT:"
    _, findings = run_ptx(body, np.zeros(64, "u4"), lanes=128, check=False)
    assert [(one.kind, one.message) for one in findings] == [
        ("divergent barrier", "lanes wait for ever")
    ]
    assert findings[0].instruction == "bar.sync 0"
    assert findings[0].where.wave == 2


# Each workgroup waits for the word of the one before, and stores its own, larger by 1.
CHAIN = """mov.u32 %r5, %ctaid.x; mul.wide.u32 %rd5, %r5, 4; add.u64 %rd6, %rd0, %rd5;
setp.ne.u32 %p0, %r0, 0; @%p0 bra OUT; mov.u32 %r1, 0; setp.eq.u32 %p1, %r5, 0; @%p1 bra THERE;
AGAIN: nanosleep.u32 20; ld.relaxed.gpu.global.u32 %r1, [%rd6+-4];
setp.eq.u32 %p2, %r1, 0; @%p2 bra AGAIN;
THERE: add.u32 %r1, %r1, 1; st.relaxed.gpu.global.u32 [%rd6], %r1; OUT:"""


@pytest.mark.parametrize("order", [0, 1])
def test_lanes_that_sleep_let_other_workgroups_go_on(run_ptx, order):
    (got,) = run_ptx(CHAIN, np.zeros(9, "u4"), lanes=64, groups=9, order=order)
    np.testing.assert_array_equal(got, np.arange(1, 10))


def test_lanes_that_sleep_for_ever_are_found(run_ptx, monkeypatch):
    monkeypatch.setattr(workgroups, "_MOST_PAUSES", 50)
    body = CHAIN.replace("%r5, 0; @%p1", "%r5, 1; @%p1").replace("+-4", "")
    _, findings = run_ptx(body, np.zeros(9, "u4"), lanes=32, check=False)
    (found,) = findings
    assert (found.kind, found.message) == ("divergent barrier", "lanes wait for ever")
    assert found.instruction == "nanosleep.u32 20"
