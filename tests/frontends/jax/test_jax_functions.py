"""Live JAX functions, in one call each."""

import numpy as np
import pytest
from optional_packages import needs

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError, MlirError


def test_a_jax_function(tmp_path):
    jax = needs("jax", "jax")

    def router(x, w):
        return jax.lax.top_k(jax.nn.softmax(jax.numpy.tanh(x @ w / 16)), 3)

    rng = np.random.default_rng(0)
    x, w = rng.random((8, 16), np.float32), rng.random((16, 32), np.float32)
    program = ext.from_jax(router, x, w, folder=tmp_path / "router")
    values, places = program(x, w)
    want_values, want_places = router(x, w)
    np.testing.assert_allclose(values, want_values, rtol=1e-5)
    np.testing.assert_array_equal(places, want_places)
    again = ext.load(tmp_path / "router")
    np.testing.assert_array_equal(again(x, w)[0], values)


def test_loops_and_branches_of_jax():
    jax = needs("jax", "jax")
    lax, jnp = jax.lax, jax.numpy

    def recurrent(weights, x):
        def step(state, row):
            state = jnp.tanh(row + state @ weights)
            return lax.cond(state.sum() > 0, lambda s: s, lambda s: -s, state), state.sum()

        last, sums = lax.scan(step, jnp.zeros(8), x)
        return lax.while_loop(lambda s: jnp.abs(s).max() > 0.1, lambda s: s / 3, last), sums

    rng = np.random.default_rng(0)
    arguments = rng.standard_normal((8, 8), "f4"), rng.standard_normal((6, 8), "f4")
    for came, want in zip(
        ext.from_jax(recurrent, *arguments)(*arguments), jax.jit(recurrent)(*arguments), strict=True
    ):
        np.testing.assert_allclose(came, want, rtol=1e-4, atol=1e-5)
    key = np.asarray(jax.random.PRNGKey(5))
    drawn = ext.from_jax(lambda key: jax.random.normal(key, (4, 3)), key)(key)
    want = jax.random.normal(jax.random.PRNGKey(5), (4, 3))
    np.testing.assert_allclose(drawn, want, rtol=1e-4, atol=1e-5)


def test_results_have_the_types_of_jax():
    jax = needs("jax", "jax")
    x = np.array([1, 200, 255], "u1")

    def counted(x):
        return jax.numpy.bitwise_count(x), x + x, x.astype("uint32"), x > 1

    for came, want in zip(ext.from_jax(counted, x)(x), counted(x), strict=True):
        assert came.dtype == want.dtype
        np.testing.assert_array_equal(came, want)


def test_arguments_that_a_jax_function_does_not_read_keep_their_places():
    jax = needs("jax", "jax")
    x, y = np.ones(3, "f4"), np.ones(2, "i4")
    program = ext.from_jax(lambda a, named, b: a + b, x, {"unread": y}, x)
    assert program(x, y, x).tolist() == [2, 2, 2]
    static = ext.from_jax(jax.jit(lambda n, a, b: b * n, static_argnums=0), 3, y, x)
    assert static(y, x).tolist() == [3, 3, 3]
    with pytest.raises(CallError, match="arg1 is float32; expected int32"):
        program(x, x, x)


@pytest.mark.costly
@pytest.mark.parametrize("length", [13, 33])
def test_associative_scans_of_jax(length, tmp_path):
    """Slices that are padded and meet again, of which each level holds what the next one reads."""
    jax = needs("jax", "jax")
    x = np.random.default_rng(0).integers(-3, 4, length).astype("float32")
    program = ext.from_jax(
        lambda x: jax.lax.associative_scan(jax.lax.add, x), x, folder=tmp_path / "p"
    )
    np.testing.assert_array_equal(program(x), np.cumsum(x))


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_products_of_bytes_and_halves_are_summed_as_exactly_as_by_jax(tmp_path, kind):
    jax = needs("jax", "jax")
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, (4, 4096)).astype("int8")
    y = jax.numpy.asarray(rng.standard_normal((4096, 4)), kind)
    exact = x.astype("float64") @ np.asarray(y, "float64")
    ours = ext.from_jax(jax.numpy.matmul, x, y, folder=tmp_path / "p")(x, np.asarray(y))
    theirs = jax.jit(jax.numpy.matmul)(x, y)
    errors = [np.abs(np.asarray(one, "float64") - exact).max() for one in (ours, theirs)]
    assert ours.dtype == theirs.dtype
    assert errors[0] <= 1.01 * errors[1]


def test_what_jax_has_lowered_already():
    jax = needs("jax", "jax")
    shape = jax.ShapeDtypeStruct((4,), np.float32)
    program = ext.from_jax(jax.jit(lambda x: x + 1).lower(shape))
    assert program(np.zeros(4, np.float32)).tolist() == [1, 1, 1, 1]
    with pytest.raises(MlirError, match="takes no arguments to trace with"):
        ext.from_jax(jax.jit(lambda x: x + 1).lower(shape), shape)


def test_what_is_not_supported_is_named_by_the_line_of_the_program():
    jax = needs("jax", "jax")

    def called_back(x):
        return jax.pure_callback(np.sin, x, x)

    with pytest.raises(MlirError, match=r"(?s)IREE does not lower it.*test_jax_functions\.py:\d+"):
        ext.from_jax(called_back, jax.ShapeDtypeStruct((4, 4), np.float32))


def test_donated_arguments_of_jax_are_updated(tmp_path):
    jax = needs("jax", "jax")

    def step(x, cache, place):
        place = jax.numpy.asarray(place, "int32")
        cache = jax.lax.dynamic_update_slice(cache, x[None] * 2, (place, 0 * place))
        return cache.sum(0), cache, cache.at[0].add(1)[:2]

    rng = np.random.default_rng(0)
    x, cache = rng.random(5, "float32"), rng.random((7, 5), "float32")
    program = ext.from_jax(step, x, cache, np.int32(3), donate_argnums=(1,), folder=tmp_path / "p")
    jitted = ext.from_jax(jax.jit(step, donate_argnums=1), x, cache, np.int32(3))
    lowered = ext.from_jax(jax.jit(step, donate_argnums=1).lower(x, cache, np.int32(3)))
    for own in (program, jitted, lowered):
        for place in (0, 6, 30, -2):
            given = cache.copy()
            got = own(x, given, np.array(place, "int32"))
            assert got[1] is given
            for one, other in zip(got, step(x, cache, place), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5)
    with pytest.raises(MlirError, match=r"donate_argnums is an option of jax\.jit; give it there"):
        ext.from_jax(jax.jit(step), x, cache, np.int32(3), donate_argnums=1)
