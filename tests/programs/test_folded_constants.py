"""What constants alone decide is computed at build."""

import json

import numpy as np
import pytest
from relax_programs import Maker, check, normal, program
from tvm import tirx

from tvm_iree_ext import ops
from tvm_iree_ext.programs import folded_constants
from tvm_iree_ext.programs.base.relax_passes import relax_functions
from tvm_iree_ext.programs.folded_constants import fold_constants
from tvm_iree_ext.programs.program_build import build_program


def stored(built):
    """The constants in an artifact, by name: their shapes."""
    manifest = json.loads((built.folder / "manifest.json").read_text())
    return {one["name"]: tuple(one["shape"]) for one in manifest["parameters"]}


def folded(maker, make, results, **options):
    """The names of the calls that are left of a program, and the constants that it takes."""
    imported = program(maker, make, results)
    parameters = dict(imported.parameters)
    mod = fold_constants(imported.module, parameters, **options)
    (function,) = relax_functions(mod).values()
    calls = [
        one.value.args[0].name_hint
        for block in function.body.blocks
        for one in block.bindings
        if hasattr(one.value, "args") and len(one.value.args) == 2
    ]
    given = int(function.attrs["num_input"])
    return calls, {one.name: parameters[one.name] for one in function.params[given:]}


def along_rows(m, x, y, shape):
    """``x * y``, where y goes along the last axis."""
    return m.nest([x, y], shape, "float32", lambda load, i, j: load[0](i, j) * load[1](j))


def test_the_scale_of_a_norm_is_a_constant(tmp_path):
    """Two kernels of 20 numbers are gone."""
    m = Maker(x=((6, 20), "float32"))
    variance = np.abs(normal(20)) + 1
    given = m.parameter("variance", variance)

    def scale(emit):
        more = emit(m.nest([given], (20,), "float32", lambda load, i: load[0](i) + 1e-5))
        return emit(m.nest([more], (20,), "float32", lambda load, i: tirx.rsqrt(load[0](i))))

    def make(emit):
        first = emit(along_rows(m, m["x"], scale(emit), (6, 20)))
        return [emit(along_rows(m, first, given, (6, 20)))]

    x = normal(6, 20)
    expected = x / np.sqrt(variance + np.float32(1e-5)) * variance
    built = check(m, make, [((6, 20), "float32")], [x], [expected], tmp_path)
    assert stored(built) == {"variance": (20,), "variance.folded": (20,)}


def total(m, arrays, shape):
    """The sum of arrays of one shape."""
    return m.nest(arrays, shape, "float32", lambda load, *at: sum(one(*at) for one in load))


def doubled(m, given, shape, dtype="float32"):
    def value(load, *at):
        return tirx.Cast(dtype, load[0](*at)) * tirx.const(2, dtype)

    return m.nest([given], shape, dtype, value)


def of_a_table(shape, **options):
    """What is left of ``x + 2 * table``, and of the constants."""
    m = Maker(x=(shape, "float32"))
    table = m.parameter("table", normal(*shape))

    def make(emit):
        more = emit(doubled(m, table, shape))
        added = total(m, [m["x"], more], shape)
        return [emit(added)]

    results = [(shape, "float32")]
    return folded(m, make, results, **options)


LARGE, SMALL = (200, 100), (20, 100)


def test_large_constants_are_folded_where_they_take_anothers_place_alone():
    calls, constants = of_a_table(LARGE)
    assert calls == ["nest2"]
    assert list(constants) == ["table.folded"]
    assert of_a_table(LARGE, most_bytes=1 << 16)[0] == ["nest1", "nest2"]
    assert of_a_table(SMALL, most_bytes=1 << 16)[0] == ["nest2"]


def test_a_large_table_that_others_read_is_not_there_twice():
    m = Maker(x=(LARGE, "float32"))
    table = m.parameter("table", normal(*LARGE))

    def make(emit):
        more = emit(doubled(m, table, LARGE))
        return [emit(total(m, [m["x"], more, table], LARGE))]

    calls, constants = folded(m, make, [(LARGE, "float32")])
    assert calls == ["nest1", "nest2"]
    assert list(constants) == ["table"]


@pytest.mark.parametrize(("dtype", "is_folded"), [("float16", True), ("int8", False)])
def test_a_conversion_grows_to_twice_the_bytes_at_most(dtype, is_folded):
    m = Maker(x=((20, 30), "float32"))
    array = np.arange(600).reshape(20, 30).astype(dtype)
    given = m.parameter("weight", array)

    def make(emit):
        wide = emit(doubled(m, given, (20, 30)))
        return [emit(total(m, [m["x"], wide], (20, 30)))]

    calls, constants = folded(m, make, [((20, 30), "float32")])
    assert len(calls) == (1 if is_folded else 2)
    if is_folded:
        np.testing.assert_array_equal(constants["weight.folded"], 2 * array.astype("float32"))


def test_a_broadcast_stays_and_what_it_is_of_is_folded():
    """``x + spread(2 * row)``: the row is a constant, spread at each call."""
    m = Maker(x=((50, 7), "float32"))
    row = m.parameter("row", normal(7))

    def make(emit):
        more = emit(doubled(m, row, (7,)))
        spread = emit(m.nest([more], (50, 7), "float32", lambda load, i, j: load[0](j)))
        return [emit(total(m, [m["x"], spread], (50, 7)))]

    calls, constants = folded(m, make, [((50, 7), "float32")])
    assert calls == ["nest2", "nest3"]
    np.testing.assert_array_equal(constants["row.folded"], 2 * m.parameters["row"])


def test_what_depends_on_positions_alone_or_on_arguments_stays():
    m = Maker(x=((5, 7), "float32"))
    row = m.parameter("row", normal(7))

    def make(emit):
        counted = emit(m.nest([], (7,), "float32", lambda load, i: tirx.Cast("float32", i)))
        return [
            emit(along_rows(m, m["x"], counted, (5, 7))),
            emit(along_rows(m, m["x"], row, (5, 7))),
        ]

    calls, constants = folded(m, make, [((5, 7), "float32")] * 2)
    assert calls == ["nest1", "nest2", "nest3"]
    assert list(constants) == ["row"]


def test_long_loops_are_left_to_the_calls(monkeypatch):
    monkeypatch.setattr(folded_constants, "_MOST_STEPS", 20 * 100 - 1)
    assert of_a_table(SMALL)[0] == ["nest1", "nest2"]
    monkeypatch.setattr(folded_constants, "_MOST_STEPS", 20 * 100)
    assert of_a_table(SMALL)[0] == ["nest2"]


def test_a_result_of_constants_alone_is_an_array_of_the_callers(tmp_path):
    m = Maker(x=((3,), "float32"))
    given = m.parameter("table", normal(3))

    def make(emit):
        return [emit(doubled(m, given, (3,)))]

    imported = program(m, make, [((3,), "float32")])
    built = build_program(imported, folder=tmp_path / "built")
    first = built(normal(3))
    first[:] = 0
    np.testing.assert_array_equal(built(normal(3)), 2 * m.parameters["table"])


def test_products_of_constants_are_folded_although_others_read_these(tmp_path):
    """A projection of relative positions, by weights that project the argument, too."""
    m = Maker(x=((5, 160), "float32"))
    arrays = {"positions": normal(200, 160), "weight": normal(160, 160)}
    positions, weight = (m.parameter(name, array) for name, array in arrays.items())
    maps = ["(i, j, k) -> (i, k)", "(i, j, k) -> (k, j)", "(i, j, k) -> (i, j)"]
    other = ["(i, j, k) -> (i, k)", "(i, j, k) -> (j, k)", "(i, j, k) -> (i, j)"]

    def product(key, a, b, shape, maps):
        kinds = [tuple(int(one) for one in value.ty.shape.values) for value in (a, b)]
        return m.op(key, ops.contraction(*kinds, indexing_maps=maps), [a, b], shape, "float32")

    def make(emit):
        rows = emit(product("rows", m["x"], weight, (5, 160), maps))
        keys = emit(product("keys", positions, weight, (200, 160), maps))
        return [emit(product("scores", rows, keys, (5, 200), other))]

    results = [((5, 200), "float32")]
    calls, constants = folded(m, make, results)
    assert calls == ["rows", "keys", "scores"]
    imported = program(m, make, results)
    calls, constants = folded(m, make, results, ops=imported.ops)
    assert calls == ["rows", "scores"]
    want = arrays["positions"] @ arrays["weight"]
    (name,) = constants.keys() - {"weight"}
    np.testing.assert_allclose(constants[name], want, rtol=1e-4, atol=1e-4)
    x = normal(5, 160)
    expected = x @ arrays["weight"] @ want.T
    check(m, make, results, [x], [expected], tmp_path, rtol=1e-3, atol=1e-2)
