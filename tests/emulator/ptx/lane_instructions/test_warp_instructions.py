"""What lanes of a warp tell one another."""

import numpy as np
import pytest

LANE = np.arange(32, dtype=np.uint32)
ALL = "0xffffffff"


def stored(register="%r1"):
    return f"mad.wide.u32 %rd9, %r0, 4, %rd0; st.global.u32 [%rd9], {register};"


@pytest.fixture
def lanes_get(run_ptx):
    def run(line, given=None, **named):
        given = LANE * 10 if given is None else given
        start = "mad.wide.u32 %rd9, %r0, 4, %rd1; ld.global.u32 %r2, [%rd9];"
        body = f"{start} {line} {stored()}"
        return run_ptx(body, np.zeros(32, "u4"), given.astype("u4"), **named)[0]

    return run


@pytest.mark.parametrize(
    ("line", "source"),
    [
        (f"shfl.sync.idx.b32 %r1, %r2, 5, 31, {ALL};", np.full(32, 5)),
        (f"shfl.sync.up.b32 %r1, %r2, 3, 0, {ALL};", np.where(LANE < 3, LANE, LANE - 3)),
        (f"shfl.sync.down.b32 %r1, %r2, 3, 31, {ALL};", np.where(LANE > 28, LANE, LANE + 3)),
        (f"shfl.sync.bfly.b32 %r1, %r2, 6, 31, {ALL};", LANE ^ 6),
        # segments of eight lanes: c is (32 - 8) << 8 | 31
        (
            f"shfl.sync.down.b32 %r1, %r2, 3, 6175, {ALL};",
            np.where(LANE % 8 > 4, LANE, LANE + 3),
        ),
        (f"shfl.sync.idx.b32 %r1, %r2, 3, 6175, {ALL};", LANE // 8 * 8 + 3),
    ],
)  # fmt: skip
def test_a_shuffle_takes_a_lanes_value(lanes_get, line, source):
    np.testing.assert_array_equal(lanes_get(line), source * 10)


def test_a_shuffle_says_whether_the_lane_is_in_range(lanes_get):
    line = f"shfl.sync.down.b32 %r3|%p0, %r2, 3, 31, {ALL}; selp.u32 %r1, 1, 0, %p0;"
    np.testing.assert_array_equal(lanes_get(line), LANE <= 28)


def test_votes(lanes_get):
    said = "setp.lt.u32 %p0, %r0, 4;"
    ballot = lanes_get(f"{said} vote.sync.ballot.b32 %r1, %p0, {ALL};")
    assert set(ballot.tolist()) == {15}
    some = f"{said} vote.sync.any.pred %p1, %p0, {ALL}; vote.sync.all.pred %p2, %p0, {ALL};"
    line = f"{some} selp.u32 %r1, 1, 0, %p1; selp.u32 %r3, 2, 0, %p2; or.b32 %r1, %r1, %r3;"
    assert set(lanes_get(line).tolist()) == {1}


def test_match_names_the_lanes_with_the_same_value(lanes_get):
    given = LANE % 3
    got = lanes_get(f"match.any.sync.b32 %r1, %r2, {ALL};", given)
    want = [sum(1 << int(other) for other in LANE[given == given[lane]]) for lane in LANE]
    assert got.tolist() == want


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("add.u32", np.sum), ("min.u32", np.min), ("max.s32", np.max),
        ("or.b32", np.bitwise_or.reduce),
    ],
)  # fmt: skip
def test_redux_is_of_all_lanes(lanes_get, name, want):
    given = (LANE * 37 + 11) % 101
    got = lanes_get(f"redux.sync.{name} %r1, %r2, {ALL};", given)
    assert set(got.tolist()) == {int(want(given))}


def test_elect_chooses_one_lane(lanes_get):
    for order in (0, 1):
        got = lanes_get(f"elect.sync %r3|%p0, {ALL}; selp.u32 %r1, 1, 0, %p0;", order=order)
        assert got.sum() == 1


def test_lanes_that_are_named_must_be_there(run_ptx):
    body = f"""setp.lt.u32 %p0, %r0, 16; mov.u32 %r2, %r0; mov.u32 %r1, 0; @!%p0 bra OUT;
    shfl.sync.bfly.b32 %r1, %r2, 1, 31, {ALL}; OUT: {stored()}"""
    _, findings = run_ptx(body, np.zeros(32, "u4"), check=False)
    assert [finding.message for finding in findings] == ["lanes are named that do not execute it"]


def test_an_aligned_instruction_needs_all_lanes(run_ptx):
    body = """setp.lt.u32 %p0, %r0, 16; @!%p0 bra OUT; mov.u64 %rd2, m;
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%rd2]; OUT:"""
    _, findings = run_ptx(
        body, np.zeros(32, "u4"), shared=".shared .align 16 .b8 m[128];", check=False
    )
    assert "not all lanes of the warp execute it" in [finding.message for finding in findings]
