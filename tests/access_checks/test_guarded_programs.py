"""What a condition guards in a nest: it is read where the condition holds, and nowhere else."""

import numpy as np
import pytest
import tvm
from relax_programs import Maker, check, normal, program
from tvm import s_tir, tirx

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.program_constants import Constants
from tvm_iree_ext.programs.program_lowering import scheduled_program
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program
from tvm_iree_ext.targets.names import make_target

ROWS, COLUMNS = 6, 32
ZERO = tirx.const(0, "float32")


def twice(emit, m, x):
    two = tirx.const(2, "float32")
    return emit(m.nest([x], (ROWS, COLUMNS), "float32", lambda r, i, j: r[0](i, j) * two))


def joined(r, i, j):
    return tirx.if_then_else(j < COLUMNS, r[0](i, j), -r[0](i, j - COLUMNS))


def three_joined(r, i, j):
    later = tirx.if_then_else(j < 2 * COLUMNS, r[0](i, j - COLUMNS), -r[0](i, j - 2 * COLUMNS))
    return tirx.if_then_else(j < COLUMNS, r[0](i, j), later)


def padded(r, i, j):
    inside = tirx.And(tirx.And(i >= 1, i < ROWS + 1), tirx.And(j - 3 >= 0, j - 3 < COLUMNS))
    return tirx.if_then_else(inside, r[0](i - 1, j - 3), ZERO)


def padded_in_reverse(r, i, j):
    own = COLUMNS + 2 - j
    return tirx.if_then_else(tirx.And(own >= 0, own < COLUMNS), r[0](i, own), ZERO)


def every_second_or_none(r, i, j):
    return tirx.if_then_else(j < COLUMNS // 2, r[0](i, j * 2), ZERO)


def along_the_diagonal(r, i, j):
    return tirx.if_then_else(i + j < COLUMNS, r[0](i, i + j), ZERO)


def joined_in_numpy(x):
    return np.concatenate([x, -x], 1)


def diagonal_in_numpy(x):
    wide = np.pad(x, ((0, 0), (0, ROWS)))
    return np.stack([wide[i, i : i + COLUMNS] for i in range(ROWS)])


CASES = {
    "joined": (joined, (ROWS, 2 * COLUMNS), joined_in_numpy),
    "three": (three_joined, (ROWS, 3 * COLUMNS), lambda x: np.concatenate([x, x, -x], 1)),
    "padded": (padded, (ROWS + 3, COLUMNS + 8), lambda x: np.pad(x, ((1, 2), (3, 5)))),
    "reversed": (
        padded_in_reverse,
        (ROWS, COLUMNS + 7),
        lambda x: np.pad(x[:, ::-1], ((0, 0), (3, 4))),
    ),
    "strided": (
        every_second_or_none,
        (ROWS, COLUMNS),
        lambda x: np.pad(x[:, ::2], ((0, 0), (0, COLUMNS // 2))),
    ),
    "diagonal": (along_the_diagonal, (ROWS, COLUMNS), diagonal_in_numpy),
}


def with_a_producer_and_a_consumer(name):
    """``y * cos(y)`` of what a guard makes of ``2 x``: all in one kernel."""
    body, shape, numpy = CASES[name]
    m = Maker(x=((ROWS, COLUMNS), "float32"))

    def make(emit):
        guarded = emit(m.nest([twice(emit, m, m["x"])], shape, "float32", body))
        used = lambda r, i, j: r[0](i, j) * tirx.cos(r[0](i, j))  # noqa: E731
        return [emit(m.nest([guarded], shape, "float32", used))]

    def of(x):
        y = numpy(2 * x)
        return y * np.cos(y)

    return m, make, [(shape, "float32")], of


def scheduled(imported):
    mod = scheduled_program(imported, make_target("llvm"), Constants(), None).module
    kernels = {v: f for v, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)}
    assert len(kernels) == 1
    passes = [s_tir.transform.ConvertBlocksToOpaque(), s_tir.transform.LowerOpaqueBlock()]
    return tvm.ir.transform.Sequential(passes)(tvm.IRModule(kernels))


# TVM's checker sees what bounds and conditions tell of one axis, not of a diagonal.
@pytest.mark.parametrize("name", [name for name in CASES if name != "diagonal"])
def test_nothing_is_read_outside_of_a_buffer(name):
    m, make, results, _ = with_a_producer_and_a_consumer(name)
    s_tir.analysis.OOBChecker()(scheduled(program(m, make, results)))


@pytest.mark.costly
@pytest.mark.parametrize("name", CASES)
def test_a_lane_reads_nothing_outside_of_a_buffer(name):
    m, make, results, of = with_a_producer_and_a_consumer(name)
    x = normal(ROWS, COLUMNS)
    for target in ("cuda:sm_80", "rocm:gfx942"):
        (got,) = simulate_program(program(m, make, results), target, [x]).check().results
        np.testing.assert_allclose(got, of(x), rtol=1e-5, atol=1e-5)
        m, make, results, of = with_a_producer_and_a_consumer(name)


@pytest.mark.parametrize("name", CASES)
def test_guarded_elements_are_those_of_numpy(name, tmp_path):
    m, make, results, of = with_a_producer_and_a_consumer(name)
    x = normal(ROWS, COLUMNS)
    check(m, make, results, [x], [of(x)], tmp_path, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["joined", "three", "padded", "reversed"])
def test_a_line_is_cut_into_vectors_where_its_conditions_change(name):
    m, make, results, _ = with_a_producer_and_a_consumer(name)
    text = scheduled(program(m, make, results)).script()
    assert "T.vectorized" in text
    assert "if_then_else" not in text or name == "padded"  # its rows' condition is one for a line


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("target", ["llvm", "cuda:sm_80"])
def test_a_reduction_over_padded_elements(axis, target, tmp_path):
    m = Maker(x=((ROWS, COLUMNS), "float32"))
    shape = (ROWS + 3, COLUMNS + 8)

    def make(emit):
        guarded = emit(m.nest([twice(emit, m, m["x"])], shape, "float32", padded))

        def add(o, r, i, k):
            value = r[0](k, i) if axis == 0 else r[0](i, k)
            return o + value * tirx.sin(value)

        over = (shape[axis],)
        return [emit(m.nest([guarded], (shape[1 - axis],), "float32", add, reduced=over, init=0.0))]

    x = normal(ROWS, COLUMNS)
    want = (2 * x * np.sin(2 * x)).sum(axis)
    want = np.pad(want, (3, 5) if axis == 0 else (1, 2))
    results = [((shape[1 - axis],), "float32")]
    if target == "llvm":
        check(m, make, results, [x], [want], tmp_path, rtol=1e-5, atol=1e-5)
    else:
        (got,) = simulate_program(program(m, make, results), target, [x]).check().results
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_long_concatenation_is_shared_among_threads(tmp_path):
    n = 40_000
    m = Maker(x=((n,), "float32"))

    def make(emit):
        body = lambda r, i: tirx.if_then_else(i < n, r[0](i), -r[0](i - n))  # noqa: E731
        return [emit(m.nest([m["x"]], (2 * n,), "float32", body))]

    x = normal(n)
    results = [((2 * n,), "float32")]
    assert scheduled(program(m, make, results)).script().count("T.parallel") == 2
    m = Maker(x=((n,), "float32"))
    check(m, make, results, [x], [np.concatenate([x, -x])], tmp_path)


@pytest.mark.parametrize("target", ["llvm", "cuda:sm_80"])
@pytest.mark.parametrize("first", [0, 2])
def test_views_of_one_array_that_meet_are_different_values(first, target, tmp_path):
    """``max(y[:, None, first:first + 2], y[None, :, first:first + 2])`` of ``y = 2 x``."""
    m = Maker(x=((8, 4), "float32"))
    shape = (8, 8, 2)

    def make(emit):
        two = tirx.const(2, "float32")
        y = emit(m.nest([m["x"]], (8, 4), "float32", lambda r, i, j: r[0](i, j) * two))
        rows = emit(m.nest([y], shape, "float32", lambda r, i, j, k: r[0](i, k + first)))
        columns = emit(m.nest([y], shape, "float32", lambda r, i, j, k: r[0](j, k + first)))
        body = lambda r, *at: tirx.max(r[0](*at), r[1](*at)) - r[0](*at)  # noqa: E731
        return [emit(m.nest([rows, columns], shape, "float32", body))]

    x = normal(8, 4)
    part = 2 * x[:, first : first + 2]
    want = np.maximum(part[:, None], part[None]) - part[:, None]
    if target == "llvm":
        check(m, make, [(shape, "float32")], [x], [want], tmp_path)
    else:
        done = simulate_program(program(m, make, [(shape, "float32")]), target, [x]).check()
        np.testing.assert_array_equal(done.results[0], want)


def test_differences_of_a_vector_with_itself(tmp_path):
    m = Maker(x=((8,), "float32"))

    def make(emit):
        y = emit(m.nest([m["x"]], (8,), "float32", lambda r, i: r[0](i) * r[0](i)))
        return [emit(m.nest([y], (8, 8), "float32", lambda r, i, j: r[0](i) - r[0](j)))]

    x = normal(8)
    check(m, make, [((8, 8), "float32")], [x], [(x * x)[:, None] - x * x], tmp_path, rtol=1e-5)


@pytest.mark.parametrize("target", ["llvm", "cuda:sm_80"])
@pytest.mark.parametrize("kind", ["bfloat16", "float32"])
def test_what_a_branch_uses_twice_may_be_computed_of_bfloat16(kind, target, tmp_path):
    """Two rows of zeros over ``s * s`` of ``s = x + x``."""
    m = Maker(x=((ROWS, COLUMNS), "bfloat16"))
    shape = (ROWS + 2, COLUMNS)

    def make(emit):
        add = lambda r, i, j: tirx.Cast(kind, r[0](i, j) + r[0](i, j))  # noqa: E731
        s = emit(m.nest([m["x"]], (ROWS, COLUMNS), kind, add))

        def square_or_none(r, i, j):
            square = r[0](i - 2, j) * r[0](i - 2, j)
            return tirx.if_then_else(i >= 2, square, tirx.const(0, kind))

        return [emit(m.nest([s], shape, kind, square_or_none))]

    x = normal(ROWS, COLUMNS).astype(numpy_dtype("bfloat16"))
    s = (x + x).astype(numpy_dtype(kind))
    imported = program(m, make, [(shape, kind)])
    if target == "llvm":
        got = build_program(imported, folder=tmp_path / "p")(x)
    else:
        (got,) = simulate_program(imported, target, [x]).check().results
    want = np.pad(s * s, ((2, 0), (0, 0)))
    np.testing.assert_array_equal(got.astype("float32"), want.astype("float32"))
