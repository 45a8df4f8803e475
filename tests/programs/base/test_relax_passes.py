"""Passes on any Relax: constants as parameters, results of their own, bindings rewritten."""

import numpy as np
import pytest
import tvm_ffi
from relax_programs import Maker, check, normal, program
from tvm import ir, relax

from tvm_iree_ext.programs.base.relax_passes import (
    lift_constants,
    prim_functions,
    relax_functions,
    simplify,
    with_bindings,
    with_constants,
    with_functions,
)

SHAPE, F32 = (3, 4), "float32"


def sums(m, emit, *tensors):
    """``a + b + ...``, a nest for each sum."""
    first, *others = tensors
    for other in others:
        body = lambda r, *at: r[0](*at) + r[1](*at)  # noqa: E731
        first = emit(m.nest([first, other], SHAPE, F32, body))
    return first


def module(make, names=(), **inputs):
    """The module of a program with constants, and its function."""
    m = Maker(**dict.fromkeys(inputs or ("x",), (SHAPE, F32)))
    for name in names:
        m.parameter(name, normal(*SHAPE))
    mod = program(m, lambda emit: make(m, emit), [(SHAPE, F32)]).module
    return mod, mod["main"]


def names(function):
    return [one.name for one in function.params]


def test_constants_stand_behind_what_is_given_and_unused_ones_go():
    _, function = module(lambda m, emit: [sums(m, emit, m["x"], m["b"])], ["a", "b"])
    added = relax.Var("c", relax.TensorType(SHAPE, F32))
    made = with_constants(function, 1, [added])
    assert names(made) == ["x", "b", "c"]
    assert dict(made.attrs) == dict(function.attrs)


def test_what_is_given_stays_though_nothing_uses_it():
    _, function = module(lambda m, emit: [sums(m, emit, m["y"], m["a"])], ["a"], x=0, y=0)
    added = relax.Var("c", relax.TensorType(SHAPE, F32))
    assert names(with_constants(function, 2, [added])) == ["x", "y", "a", "c"]


def test_without_more_constants_a_function_stays_as_it_is():
    _, function = module(lambda m, emit: [sums(m, emit, m["x"], m["b"])], ["a", "b"])
    assert with_constants(function, 1, []).same_as(function)


def test_functions_are_told_apart_and_put_in_place():
    mod, function = module(lambda m, emit: [sums(m, emit, m["x"], m["x"])])
    assert [var.name_hint for var in relax_functions(mod)] == ["main"]
    assert [var.name_hint for var in prim_functions(mod)] == ["nest1"]
    (var,) = relax_functions(mod)
    changed = with_functions(mod, {var: function.with_attr("marked", 1)})
    assert int(changed["main"].attrs["marked"]) == 1
    assert "marked" not in mod["main"].attrs


def test_bindings_are_replaced_by_none_or_several():
    _, function = module(lambda m, emit: [sums(m, emit, m["x"], m["x"], m["x"])])
    seen = []

    def rewritten(binding):
        seen.append(binding)
        copy = relax.DataflowVar("copy", binding.var.ty)
        return [binding, relax.VarBinding(copy, binding.var)]

    made = with_bindings(function, rewritten)
    (block,) = made.body.blocks
    assert isinstance(block, relax.DataflowBlock)
    assert len(block.bindings) == 2 * len(seen)
    assert with_bindings(made, lambda binding: []).body.blocks[0].bindings == []


def test_equal_constants_become_one_parameter():
    def make(m, emit):
        one, other = relax.const(np.ones(SHAPE, F32)), relax.const(np.ones(SHAPE, F32))
        return [sums(m, emit, m["x"], one, other, relax.const(np.zeros(SHAPE, F32)))]

    _, function = module(make)
    lifted, added = lift_constants(function, lambda array: f"all {array.flat[0]:g}")
    assert added == ["all 1", "all 0"]
    assert names(lifted) == ["x", *added]
    left: list[object] = []
    tvm_ffi.structural_walk(lifted.body, (ir.GenericConst, left.append))
    assert left == []


def test_nothing_is_computed_twice_nor_in_vain():
    def make(m, emit):
        twice = m.nest([m["x"]], SHAPE, F32, lambda r, *at: r[0](*at) * 2)
        emit(m.nest([m["x"]], SHAPE, F32, lambda r, *at: r[0](*at) * 3))
        return [sums(m, emit, emit(twice), emit(twice))]

    mod, _ = module(make)
    private = {v: f.without_attr("global_symbol") for v, f in prim_functions(mod).items()}
    made = simplify(with_functions(mod, private), ["main"])
    assert len(made["main"].body.blocks[0].bindings) == 2
    assert len(prim_functions(made)) == 2


@pytest.mark.parametrize("of", ["input", "twice", "constant"])
def test_results_have_memory_of_their_own(of, tmp_path):
    m = Maker(x=(SHAPE, F32))
    weight = m.parameter("weight", normal(*SHAPE))

    def make(emit):
        y = sums(m, emit, m["x"], weight)
        return {"input": [y, m["x"]], "twice": [y, y], "constant": [y, weight]}[of]

    x, w = normal(*SHAPE), m.parameters["weight"]
    want = {"input": [x + w, x], "twice": [x + w, x + w], "constant": [x + w, w]}[of]
    built = check(m, make, [(SHAPE, F32)] * 2, [x], want, tmp_path)
    first, second = built(x)
    second[:] = 7
    np.testing.assert_array_equal(first, want[0])
    np.testing.assert_array_equal(built(x)[1], want[1])
