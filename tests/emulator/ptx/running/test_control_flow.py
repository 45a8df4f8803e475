"""Branches of which lanes take different sides, loops, calls and tables."""

import numpy as np
import pytest

LANE = np.arange(64, dtype=np.uint32)


def stored(register="%r1"):
    return f"mad.wide.u32 %rd9, %r0, 4, %rd0; st.global.u32 [%rd9], {register};"


@pytest.mark.parametrize("order", [0, 1])
def test_lanes_that_take_different_sides_meet_again(run_ptx, order):
    body = f"""
    and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 0; mov.u32 %r1, 7;
    @%p0 bra EVEN;
    add.u32 %r1, %r0, 100; bra.uni JOIN;
    EVEN: setp.gt.u32 %p1, %r0, 20; @%p1 bra JOIN; add.u32 %r1, %r0, 200;
    JOIN: activemask.b32 %r5; and.b32 %r5, %r5, 1; shl.b32 %r5, %r5, 16;
    or.b32 %r1, %r1, %r5; {stored()}"""
    (got,) = run_ptx(body, np.zeros(64, "u4"), lanes=64, order=order)
    want = np.where(LANE % 2, LANE + 100, np.where(LANE > 20, 7, LANE + 200)) | 1 << 16
    want[32:] = np.where(LANE[32:] % 2, LANE[32:] + 100, 7) | 1 << 16
    np.testing.assert_array_equal(got & 0xFFFF, want & 0xFFFF)
    assert (got[:32] >> 16 == 1).all()


def test_lanes_leave_a_loop_one_after_another(run_ptx):
    body = f"""
    mov.u32 %r1, 0; mov.u32 %r2, 0;
    LOOP: setp.ge.u32 %p0, %r2, %r0; @%p0 bra DONE;
    add.u32 %r2, %r2, 1; add.u32 %r1, %r1, %r2; bra LOOP;
    DONE: {stored()}"""
    (got,) = run_ptx(body, np.zeros(64, "u4"), lanes=64)
    np.testing.assert_array_equal(got, LANE * (LANE + 1) // 2)


def test_lanes_that_return_do_not_go_on(run_ptx):
    body = f"setp.ge.u32 %p0, %r0, 40; @%p0 ret; mov.u32 %r1, 1; {stored()}"
    (got,) = run_ptx(body, np.zeros(64, "u4"), lanes=64)
    np.testing.assert_array_equal(got, LANE < 40)


def test_a_guarded_instruction_leaves_other_lanes_registers(run_ptx):
    body = f"setp.lt.u32 %p0, %r0, 9; mov.u32 %r1, 5; @!%p0 add.u32 %r1, %r1, 1; {stored()}"
    (got,) = run_ptx(body, np.zeros(64, "u4"), lanes=64)
    np.testing.assert_array_equal(got, np.where(LANE < 9, 5, 6))


def test_names_between_braces_are_their_own(run_ptx):
    inner = "{ .reg .u32 t; .reg .pred q; add.u32 t, %r1, 3; setp.gt.u32 q, t, 9; @q bra OUT;"
    inner += " mov.u32 %r1, t; OUT: }"
    (got,) = run_ptx(f"mov.u32 %r1, %r0; {inner} {inner} {stored()}", np.zeros(64, "u4"), lanes=64)
    want = LANE.copy()
    for _ in range(2):
        want = np.where(want + 3 > 9, want, want + 3)
    np.testing.assert_array_equal(got, want)


FUNCTION = """
.func (.param .b32 out) triple(.param .b32 given) {
  .reg .b32 %r<9>; .reg .pred %p<3>;
  ld.param.b32 %r1, [given]; setp.gt.u32 %p1, %r1, 30; @%p1 bra BIG;
  mul.lo.u32 %r2, %r1, 3; st.param.b32 [out], %r2; ret;
  BIG: st.param.b32 [out], %r1; ret;
}"""
CALL = """{ .param .b32 param0; st.param.b32 [param0+0], %r1; .param .b32 retval0;
  call.uni (retval0), triple, (param0); ld.param.b32 %r1, [retval0+0]; }"""


def test_calls_are_executed_where_they_stand(run_ptx):
    body = f"mov.u32 %r1, %r0; {CALL} {CALL} {stored()}"
    (got,) = run_ptx(body, np.zeros(64, "u4"), lanes=64, functions=FUNCTION)
    want = LANE.copy()
    for _ in range(2):
        want = np.where(want > 30, want, want * 3)
    np.testing.assert_array_equal(got, want)


def test_an_indexed_branch_goes_by_its_table(run_ptx):
    body = f"""
    and.b32 %r2, %r0, 3; mov.u32 %r1, 50;
    TABLE: .branchtargets A, B, C, B;
    brx.idx %r2, TABLE;
    A: mov.u32 %r1, 10; bra C;
    B: mov.u32 %r1, 20;
    C: {stored()}"""
    (got,) = run_ptx(body, np.zeros(64, "u4"), lanes=64)
    np.testing.assert_array_equal(got, np.array([10, 20, 50, 20])[LANE % 4])


def test_registers_begin_as_noise(run_ptx):
    first, second = (
        run_ptx(stored("%r77"), np.zeros(32, "u4"), order=order)[0] for order in (0, 1)
    )
    assert first[0] != second[0]
