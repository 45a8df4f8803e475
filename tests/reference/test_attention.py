"""The reference of attention against loops over single elements, which nobody can misread."""

import itertools
import math

import numpy as np
import pytest

from tvm_iree_ext import reference

RNG = np.random.default_rng(3)
BATCH, ROWS, KEYS, WIDTH, COLUMNS = 2, 3, 4, 5, 2
MAPS = {
    "query": (0, 1, 2),
    "key": (0, 3, 2),
    "value": (0, 3, 4),
    "mask": (1, 3),
    "output": (0, 1, 4),
    "max": (0, 1),
    "sum": (0, 1),
}
OPERANDS = {
    "query": RNG.standard_normal((BATCH, ROWS, WIDTH)),
    "key": RNG.standard_normal((BATCH, KEYS, WIDTH)),
    "value": RNG.standard_normal((BATCH, KEYS, COLUMNS)),
    "mask": RNG.standard_normal((ROWS, KEYS)),
}
STATE = {
    "output_init": RNG.standard_normal((BATCH, ROWS, COLUMNS)),
    "max_init": RNG.standard_normal((BATCH, ROWS)),
    "sum_init": RNG.uniform(1, 2, (BATCH, ROWS)),
}


def row_scores(b, m, region=lambda s: s):
    q, k, mask = (OPERANDS[name] for name in ("query", "key", "mask"))
    products = [sum(q[b, m, i] * k[b, j, i] for i in range(WIDTH)) for j in range(KEYS)]
    return [region(0.5 * products[j]) + mask[m, j] for j in range(KEYS)]


@pytest.mark.parametrize("region", [None, lambda s: 2 * np.tanh(s)], ids=["plain", "softcap"])
def test_attention_equals_loops_over_elements(region):
    got = reference.attention(OPERANDS, MAPS, scale=0.5, region=region)
    for b, m, n in itertools.product(range(BATCH), range(ROWS), range(COLUMNS)):
        weights = [math.exp(s) for s in row_scores(b, m, region or (lambda s: s))]
        want = sum(w * OPERANDS["value"][b, j, n] for j, w in enumerate(weights)) / sum(weights)
        assert got[b, m, n] == pytest.approx(want, rel=1e-12)


def test_keys_from_a_length_on_do_not_count_whatever_they_are():
    lengths = np.array([3, 1])
    behind = np.arange(KEYS) >= lengths[:, None]
    spoiled = {
        name: np.where(behind[..., None], np.nan, OPERANDS[name]) for name in ("key", "value")
    }
    operands = OPERANDS | spoiled | {"key_lengths": lengths}
    got = reference.attention(operands, MAPS | {"key_lengths": (0,)}, scale=0.5)
    for b, m, n in itertools.product(range(BATCH), range(ROWS), range(COLUMNS)):
        weights = [math.exp(s) for s in row_scores(b, m)[: lengths[b]]]
        want = sum(w * OPERANDS["value"][b, j, n] for j, w in enumerate(weights)) / sum(weights)
        assert got[b, m, n] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize(("domain", "base"), [("natural", math.e), ("log2", 2.0)])
def test_log_sum_exp_is_of_the_scores_in_the_base_of_their_domain(domain, base):
    maps = MAPS | {"log_sum_exp": (1, 0)}
    got = reference.log_sum_exp(OPERANDS, maps, scale=0.5, score_domain=domain)
    for b, m in itertools.product(range(BATCH), range(ROWS)):
        want = math.log(sum(math.exp(s) for s in row_scores(b, m))) / math.log(base)
        assert got[m, b] == pytest.approx(want, rel=1e-12)


def test_online_attention_equals_loops_over_elements():
    output, maximum, total = reference.online_attention(OPERANDS | STATE, MAPS, scale=0.5)
    for b, m in itertools.product(range(BATCH), range(ROWS)):
        scores = row_scores(b, m)
        newest = max([STATE["max_init"][b, m], *scores])
        shrink = math.exp(STATE["max_init"][b, m] - newest)
        weights = [math.exp(s - newest) for s in scores]
        assert maximum[b, m] == pytest.approx(newest, rel=1e-12)
        assert total[b, m] == pytest.approx(shrink * STATE["sum_init"][b, m] + sum(weights))
        for n in range(COLUMNS):
            carried = shrink * STATE["output_init"][b, m, n]
            added = sum(w * OPERANDS["value"][b, j, n] for j, w in enumerate(weights))
            assert output[b, m, n] == pytest.approx(carried + added, rel=1e-12)


def test_base_2_scores_change_nothing_without_a_region():
    natural = reference.attention(OPERANDS, MAPS, scale=0.5)
    base_2 = reference.attention(OPERANDS, MAPS, scale=0.5, score_domain="log2")
    np.testing.assert_allclose(natural, base_2, rtol=1e-12)


def test_a_permuted_output_is_the_transpose():
    permuted = reference.attention(OPERANDS, MAPS | {"output": (4, 0, 1)}, scale=0.5)
    plain = reference.attention(OPERANDS, MAPS, scale=0.5)
    np.testing.assert_array_equal(permuted, plain.transpose(2, 0, 1))


def test_weights_take_the_type_of_value():
    half = OPERANDS | {"value": OPERANDS["value"].astype(np.float16)}
    exact = OPERANDS | {"value": half["value"].astype(np.float64)}
    difference = np.abs(
        reference.attention(half, MAPS, scale=0.5) - reference.attention(exact, MAPS, scale=0.5)
    )
    assert 0 < difference.max() < 2e-3
