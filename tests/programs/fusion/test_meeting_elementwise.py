"""Elementwise functions that part and meet again become one, which a product takes in."""

import numpy as np
import pytest
from relax_programs import Maker, check, normal, program
from tvm import tirx
from tvm.script import ir as script
from tvm.script import relax as R

from tvm_iree_ext import ops
from tvm_iree_ext.programs import program_lowering
from tvm_iree_ext.programs.fusion import meeting_elementwise
from tvm_iree_ext.programs.fusion.meeting_elementwise import join_meeting_elementwise
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.programs.relax_import.from_relax import from_relax

F32 = "float32"


def number(value):
    return tirx.const(value, F32)


class Steps:
    """Elementwise nests on tensors of one shape, each emitted at once."""

    def __init__(self, maker, emit, shape):
        self.maker, self.emit, self.shape = maker, emit, shape

    def __call__(self, body, *tensors, dtype=F32):
        """``body`` of an element of each tensor."""

        def whole(load, *at):
            return body(*(load[place](*at) for place in range(len(tensors))))

        return self.emit(self.maker.nest(tensors, self.shape, dtype, whole))


def silu(step, x):
    gate = step(tirx.sigmoid, x)
    return step(lambda a, b: a * b, x, gate)


def relu6(step, x):
    """As PyTorch lowers it: each bound by a comparison, a test for NaN, or, and a selection."""
    for bound, test in ((0.0, lambda a: a > number(0.0)), (6.0, lambda a: a < number(6.0))):
        inside = step(test, x, dtype="bool")
        nan = step(tirx.isnan, x, dtype="bool")
        kept = step(tirx.Or, inside, nan, dtype="bool")
        x = step(lambda k, a, end=bound: tirx.Select(k, a, number(end)), kept, x)
    return x


def hardswish(step, x):
    more = step(lambda a: a + number(3.0), x)
    return step(lambda a, b: a * b / number(6.0), x, relu6(step, more))


def squares(step, x):
    """One function reads a tensor twice."""
    square = step(lambda a, b: a * b, x, x)
    return step(lambda a, b: a * b, square, x)


def clamp6(x):
    return np.clip(x, 0, 6)


KINDS = {
    "silu": (silu, lambda x: x / (1 + np.exp(-x))),
    "relu6": (relu6, clamp6),
    "hardswish": (hardswish, lambda x: x * clamp6(x + 3) / 6),
    "squares": (squares, lambda x: x * x * x),
}


def linear(kind, tmp_path, rows=5):
    """A product, and a function of it."""
    of_steps, of_numpy = KINDS[kind]
    op = ops.matmul((rows, 20), (20, 48))
    m = Maker(x=((rows, 20), F32), w=((20, 48), F32))

    def make(emit):
        y = emit(m.op("product", op, m.vars, (rows, 48), F32))
        return [of_steps(Steps(m, emit, (rows, 48)), y)]

    x, w = normal(5, 20), normal(20, 48)
    x[0, 0] = np.nan  # a clamp hands it on
    results = [((rows, 48), F32)]
    return check(m, make, results, [x, w], [of_numpy(x @ w)], tmp_path, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_a_product_is_its_epilogue(kind, tmp_path):
    assert linear(kind, tmp_path).resources["kernels"] == 1


def test_rows_may_be_known_at_the_call_only(tmp_path):
    assert linear("silu", tmp_path, "rows").resources["kernels"] == 2  # one computes extents


def test_what_follows_a_convolution_is_its_epilogue(tmp_path):
    op = ops.conv_2d((2, 6, 5, 7), (3, 3, 7, 9), padding=1, algorithm="im2col")
    shape = (2, 6, 5, 9)
    m = Maker(x=((2, 6, 5, 7), F32), w=((3, 3, 7, 9), F32))

    def make(emit):
        y = emit(m.op("convolution", op, m.vars, shape, F32))
        return [silu(Steps(m, emit, shape), y)]

    x, w = normal(2, 6, 5, 7), normal(3, 3, 7, 9)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (1, 2)
    )
    y = np.einsum("nhwcij,ijcf->nhwf", windows, w)
    want = y / (1 + np.exp(-y))
    built = check(m, make, [(shape, F32)], [x, w], [want], tmp_path, rtol=1e-4, atol=1e-4)
    assert built.resources["kernels"] == 1


def test_programs_compute_the_same_without(tmp_path, monkeypatch):
    monkeypatch.setattr(program_lowering, "join_meeting_elementwise", lambda mod: mod)
    assert linear("hardswish", tmp_path).resources["kernels"] > 1


# What the pass makes of a module.


def calls(mod):
    """The functions that the module's ``main`` calls, in order."""
    bindings = [binding for block in mod["main"].body.blocks for binding in block.bindings]
    return [
        binding.value.args[0].name_hint
        for binding in bindings
        if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_tir"
    ]


def joined(shape, make):
    """What the pass leaves of the calls that ``make(step, x)`` emits."""
    m = Maker(x=(shape, F32))
    mod = program(m, lambda emit: make(Steps(m, emit, shape), m.vars[0]), []).module
    return calls(join_meeting_elementwise(mod))


@pytest.mark.parametrize("shape", [(4, 5), (), ("n", 3)])
def test_one_function_is_left(shape):
    made = joined(shape, lambda step, x: [silu(step, step(tirx.exp, x))])
    assert made == ["nest1", "joined"]


def test_several_that_follow_each_other_are_joined_each_by_itself():
    made = joined((4, 5), lambda step, x: [silu(step, silu(step, silu(step, x)))])
    assert made == ["joined"] * 3


def test_a_tensor_that_is_a_result_too_stays():
    def make(step, x):
        y = step(tirx.exp, x)
        return [silu(step, y), y]

    assert joined((4, 5), make) == ["nest1", "nest2", "nest3"]


def test_what_is_read_elsewhere_too_is_not_joined():
    """The gate is a result: who computes it has it, and would compute it again."""

    def make(step, x):
        gate = step(tirx.sigmoid, x)
        return [step(lambda a, b: a * b, x, gate), gate]

    assert joined((4, 5), make) == ["nest1", "nest2"]


def test_readers_that_never_meet_stay():
    def make(step, x):
        return [step(tirx.exp, x), step(tirx.sigmoid, x)]

    assert joined((4, 5), make) == ["nest1", "nest2"]


def test_a_reader_by_other_indices_is_no_elementwise_one():
    """``x + x reversed`` reads each element of ``x`` at two places."""
    m = Maker(x=((6,), F32))

    def make(emit):
        y = emit(m.nest(m.vars, (6,), F32, lambda r, i: tirx.exp(r[0](i))))
        back = emit(m.nest([y], (6,), F32, lambda r, i: r[0](5 - i)))
        return [emit(m.nest([y, back], (6,), F32, lambda r, i: r[0](i) + r[1](i)))]

    assert calls(join_meeting_elementwise(program(m, make, [((6,), F32)]).module)) == [
        "nest1",
        "nest2",
        "nest3",
    ]


def test_a_result_of_another_shape_is_not_joined(tmp_path):
    """A row that is spread over a matrix is not computed again for each element."""
    m = Maker(x=((6,), F32))

    def make(emit):
        y = emit(m.nest(m.vars, (6,), F32, lambda r, i: tirx.exp(r[0](i))))
        z = emit(m.nest([y], (6,), F32, lambda r, i: tirx.sigmoid(r[0](i))))
        wide = m.nest([y, z], (4, 6), F32, lambda r, i, j: r[0](j) + r[1](j))
        return [emit(wide)]

    x = normal(6)
    want = np.broadcast_to(np.exp(x) + 1 / (1 + np.exp(-np.exp(x))), (4, 6))
    assert len(calls(join_meeting_elementwise(program(m, make, [((4, 6), F32)]).module))) == 3
    m = Maker(x=((6,), F32))
    check(m, make, [((4, 6), F32)], [x], [want], tmp_path)


def test_functions_whose_paths_double_are_not_joined(tmp_path):
    """Steps of ``x * (1 - x) * a`` read x twice each; where all read ``a`` too, all meet."""
    shape, steps = (3, 4), 40
    m = Maker(x=(shape, F32), a=(shape, F32))

    def make(emit):
        step = Steps(m, emit, shape)
        x, a = m.vars
        a = step(tirx.exp, a)
        for _ in range(steps):
            x = step(lambda u, v: u * (number(1.0) - u) * v, x, a)
        return [x]

    x, a = np.abs(normal(*shape)) % 1, np.zeros(shape, F32)
    want = x
    for _ in range(steps):
        want = want * (1 - want)
    check(m, make, [(shape, F32)], [x, a], [want], tmp_path, rtol=1e-4)


@pytest.mark.parametrize("steps", [10, 500])
def test_of_a_long_chain_that_meets_where_it_began_no_function_is_made(steps):
    """Python would end within it."""

    def make(step, x):
        first = last = step(tirx.exp, x)
        for _ in range(steps):
            last = step(lambda a: a + number(1.0), last)
        return [step(lambda a, b: a * b, first, last)]

    assert joined((4, 5), make).count("joined") == (steps == 10)


def test_a_function_may_use_its_extents(tmp_path):
    m = Maker(x=(("n", 8), F32))

    def make(emit):
        def mean(load, *at):
            element = load[0](*at)
            return element / tirx.Cast(F32, element.source.ty.shape[0])

        y = emit(m.nest(m.vars, ("n", 8), F32, lambda r, *at: tirx.exp(r[0](*at))))
        part = emit(m.nest([y], ("n", 8), F32, mean))
        return [emit(m.nest([y, part], ("n", 8), F32, lambda r, *at: r[0](*at) * r[1](*at)))]

    x = normal(5, 8)
    check(m, make, [(("n", 8), F32)], [x], [np.exp(x) ** 2 / 5], tmp_path, rtol=1e-4)


def test_what_is_only_known_before_a_branch_is_not_read_behind_it(tmp_path):
    """A branch parts a function in blocks, the variables of which are their own."""

    @script.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), c: R.Tensor((), "bool")):
            s = R.exp(x)
            u = R.sigmoid(s)
            v = R.multiply(s, u)
            if c:  # noqa: SIM108 -- TVMScript
                z = R.add(x, x)
            else:
                z = x
            y = R.add(u, v)
            w = R.add(y, z)
            return w

    built = build_program(from_relax(Module), folder=tmp_path / "p")
    x = normal(4, 8)
    gate = 1 / (1 + np.exp(-np.exp(x)))
    np.testing.assert_allclose(
        built(x, np.array(True)), gate + np.exp(x) * gate + 2 * x, rtol=1e-5, atol=1e-6
    )


def test_many_are_joined_at_once(monkeypatch):
    """A function is looked through twice: 200 layers took 40 s where it was for each."""
    looks = []

    class Graph(meeting_elementwise._Graph):
        def __init__(self, *given):
            looks.append(given)
            super().__init__(*given)

    monkeypatch.setattr(meeting_elementwise, "_Graph", Graph)

    def make(step, x):
        for _ in range(20):
            x = silu(step, x)
        return [x]

    assert joined((4, 5), make) == ["joined"] * 20
    assert len(looks) == 2
