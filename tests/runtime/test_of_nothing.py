"""Operands without elements: results are empty, or inits as they came; on any target."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import CallError, OpError
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op

ONLINE = (("b", 2, "m", 8), ("b", 2, "k", 8), ("b", 2, "k", 4))


# For each op: with names for extents, with numbers, and for each result its init.
CASES = {
    "scatter": (
        lambda n: ops.scatter((n, 3), (n, 1), (4, 3)),
        {"result": "original"},
    ),
    "scatter in order": (
        lambda n: ops.scatter((n, 3), (n, 1), (4, 3), region="add", unique_indices=False),
        {"result": "original"},
    ),
    "gather": (
        lambda n: ops.gather((n, 3), (4, 1), output=(4, 3)),
        {"output": "output_init"},
    ),
    "map_store": (
        lambda n: ops.map_store((n, 3), (4, 3), "arg0, arg1, arg0 < 4"),
        {"output": "output_init"},
    ),
    "topk": (
        lambda n: ops.topk((2, n), k=3, dimension=1),
        {"output_values": "output_values_init", "output_indices": "output_indices_init"},
    ),
    "topk of columns": (
        lambda n: ops.topk((n, 2), k=3, dimension=0, indices=(n, 2)),
        {"output_values": "output_values_init", "output_indices": "output_indices_init"},
    ),
    "arg_compare": (
        lambda n: ops.arg_compare((3, n), dimension=1),
        {"value": "init_value", "index": "init_index"},
    ),
    "scan": (
        lambda n: ops.scan((3, n), dimension=1),
        {"output": None, "accumulator": "accumulator_init"},
    ),
    "sort": (lambda n: ops.sort((3, n), (3, n), dimension=1, region="arg0 < arg1"), {}),
    "online_attention": (
        lambda n: ops.online_attention((1, 2, 3, 8), (1, 2, n, 8), (1, 2, n, 4), scale=1.0),
        {name: f"{name}_init" for name in ("output", "max", "sum")},
    ),
}


def operands(op):
    rng = np.random.default_rng(0)
    return {
        one.name: rng.integers(1, 9, [0 if e == "n" else e for e in one.shape]).astype(one.dtype)
        for one in op.signature.arguments
    }


@pytest.mark.costly
@pytest.mark.parametrize("extent", ["n", 0], ids=["open", "known"])
@pytest.mark.parametrize("case", CASES)
def test_a_result_is_its_init_where_nothing_is_combined_with_it(case, extent):
    make, inits = CASES[case]
    op = make(extent)
    given, kernel = operands(op), ext.build(op)
    results = kernel(*given.values())
    listed = results if isinstance(results, tuple) else (results,)
    for operand, result in zip(op.signature.results, listed, strict=True):
        init = inits.get(operand.name)
        if init is None:
            assert result.size == 0
        else:
            np.testing.assert_array_equal(result, given[init])
    out = tuple(np.full_like(one, 77) for one in listed)
    kernel(*given.values(), out=out if len(out) > 1 else out[0])
    for one, other in zip(out, listed, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.costly
@pytest.mark.parametrize("case", ["scatter", "topk", "scan", "sort", "online_attention"])
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_gpus_are_launched_for_the_inits_alone(case, target):
    make, inits = CASES[case]
    op = make(0)
    ext.build(op, target)
    if any(inits.values()):
        given = operands(op)
        done = simulate_op(op, target, given).check()
        for result, init in inits.items():
            if init is not None:
                np.testing.assert_array_equal(done.results[result], given[init])


def test_a_scatter_without_updates_may_be_in_place():
    kernel = ext.build(ops.scatter(("n", 3), ("n", 1), (4, 3)))
    original = np.ones((4, 3), "float32")
    updates, indices = np.zeros((0, 3), "float32"), np.zeros((0, 1), "int32")
    assert kernel(updates, indices, original, out=original) is original
    assert (original == 1).all()


def test_what_a_softmax_over_nothing_gives_is_refused():
    message = r"key is empty, \[1, 2, 0, 8\], and a result is not: its value is undefined"
    with pytest.raises(OpError, match=message):
        ops.attention((1, 2, 3, 8), (1, 2, 0, 8), (1, 2, 0, 8))
    kernel = ext.build(ops.attention(*ONLINE[:2], ONLINE[1], scale=1.0))
    shapes = (1, 2, 3, 8), (1, 2, 0, 8), (1, 2, 0, 8)
    with pytest.raises(CallError, match=message):
        kernel(*(np.ones(shape, "float32") for shape in shapes))


@pytest.mark.parametrize("features", [0, "l"])
def test_a_maximum_is_over_its_own_dims_alone(features):
    """An accumulator without terms is rescaled with it, and is no more than that."""
    scores = np.arange(15, dtype="float32").reshape(3, 5)
    op = ops.exp_reduction(
        [(3, 5), (5, features)],
        [(3,), (3,), (3,)],
        indexing_maps=[
            *("(m, k, l) -> (m, k)", "(m, k, l) -> (k, l)"),
            *["(m, k, l) -> (m)"] * 3,
        ],
        iterator_types=["parallel", "reduction", "reduction"],
        exp_reduced_operands=[1],
        region="arg2, arg0 * arg1 + arg3, arg1 + arg4",
    )
    inits = np.zeros(3, "float32"), np.ones(3, "float32"), np.full(3, 7, "float32")
    largest, rescaled, kept = ext.build(op)(scores, np.ones((5, 0), "float32"), *inits)
    np.testing.assert_array_equal(largest, scores.max(1))
    np.testing.assert_array_equal(rescaled, np.exp2(-largest))
    np.testing.assert_array_equal(kept, inits[2])


def test_scores_of_no_features_are_no_state_to_be_kept():
    with pytest.raises(OpError, match=r"query is empty, \[1, 2, 3, 0\], and a result is not"):
        ops.online_attention((1, 2, 3, 0), (1, 2, 5, 0), (1, 2, 5, 4), scale=1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.scan((2**62, 2), dimension=0),
        lambda: ops.sort((2**40, 2**40), dimension=0),
        lambda: ops.grouped_matmul((2**30, 8), (1, 8, 2**30), (1,)),
        lambda: ops.topk((2**48,), k=1, dimension=0),
        lambda: ops.gather((2**45, 8), (3, 1)),
    ],
)
def test_an_operand_beyond_all_memory_is_refused(make):
    with pytest.raises(OpError, match=r"takes \d+ bytes; expected 2\*\*47 at most"):
        make()
