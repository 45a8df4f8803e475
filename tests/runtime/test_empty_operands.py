"""The whole table of ops with an extent of 0, each in its turn: as the reference, or refused."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.base.errors import CallError, OpError, ScheduleError
from tvm_iree_ext.catalog.custom_op import FORMS
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.ops import vector_ext
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.runtime.calls import Caller
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_op

LINES = NestedLayout(
    subgroup_tile=(1, 1), batch_tile=(1, 1), outer_tile=(1, 1), thread_tile=(8, 8),
    element_tile=(1, 1), subgroup_strides=(0, 0), thread_strides=(8, 1),
)  # fmt: skip
ROWS = ["(d0, d1) -> (d0, d1)", "(d0, d1) -> (d0)", "(d0, d1) -> (d0)"]
PRODUCT = FORMS["yield t0@t1 + t2"]
VECTORS = r"vector|extents start at 1|expected \[8, 8\]|layout"
NO_SOFTMAX = "is empty, .* and a result is not: its value is undefined"

# By a name that begins with the op's: how it is made of extents, which they are, and of those of
# which 0 is refused why.
CASES = {
    "iree_linalg_ext.attention": (
        lambda m, k, d, n: ops.attention((1, 2, m, d), (1, 2, k, d), (1, 2, k, n), scale=1.0),
        {"m": 3, "k": 4, "d": 8, "n": 8},
        {"k": NO_SOFTMAX, "d": NO_SOFTMAX},
    ),
    "iree_linalg_ext.online_attention": (
        lambda m, k, d, n: ops.online_attention((1, m, d), (1, k, d), (1, k, n), scale=1.0,
            indexing_maps=[f"(b, m, k, d, n) -> ({one})" for one in (
                "b, m, d", "b, k, d", "b, k, n", "", "b, m, n", "b, m", "b, m")]),
        {"m": 3, "k": 4, "d": 8, "n": 8},
        {"d": NO_SOFTMAX, "n": NO_SOFTMAX},
    ),
    "iree_linalg_ext.exp_reduction": (
        lambda m, k: ops.exp_reduction(
            [(m, k)], [(m,), (m,)], indexing_maps=ROWS, iterator_types=["parallel", "reduction"],
            exp_reduced_operands=[1], region="arg1, arg2 + arg0",
        ),
        {"m": 3, "k": 4},
        {},
    ),
    "iree_linalg_ext.custom_op": (
        lambda m, n, k: ops.custom_op(
            [(m, k), (k, n)], [(m, n)], indexing_maps=PRODUCT.maps,
            iterator_types=PRODUCT.iterators, region=PRODUCT.tile,
        ),
        {"m": 3, "n": 4, "k": 5},
        {},
    ),
    "iree_linalg_ext.fft": (
        lambda b, n: ops.fft((b, n), (b, n), stage=2),
        {"b": 3, "n": 8},
        {"n": ("stage is 2, of blocks of 4; the innermost extent is 0", "")},
    ),
    "tvm_iree_ext.fft_transform": (
        lambda b, n: ops.fft_transform((b, n)),
        {"b": 3, "n": 8},
        {"n": "there is no transform of no points|the transformed axis is static"},
    ),
    "iree_linalg_ext.pack": (
        lambda m, n: ops.pack(
            (m, n), inner_dims_pos=(0, 1), inner_tiles=(2, 4), padding_value=1.0
        ),
        {"m": 5, "n": 6},
        {},
    ),
    "iree_linalg_ext.pack into more": (
        lambda m, t: ops.pack(
            (m, 6), (4, 3, t, 4), inner_dims_pos=(0, 1), inner_tiles=(t, 4), padding_value=1.0
        ),
        {"m": 5, "t": 2},
        {"t": "inner tile 0 is not a number from 1|result has tiles of extent 0"},
    ),
    "iree_linalg_ext.unpack": (
        lambda m, n: ops.unpack((m, n, 2, 4), ("r", "c"), inner_dims_pos=(0, 1),
                                inner_tiles=(2, 4)),
        {"m": 3, "n": 2},
        {},
    ),
    "iree_linalg_ext.scatter": (
        lambda n, c, m: ops.scatter((n, c), (n, 1), (m, c)), {"n": 2, "c": 3, "m": 9}, {}
    ),
    "iree_linalg_ext.gather": (
        lambda n, c, m: ops.gather((m, c), (n, 1)), {"n": 2, "c": 3, "m": 9}, {}
    ),
    "iree_linalg_ext.scan": (
        lambda m, n: ops.scan((m, n), dimension=1), {"m": 3, "n": 4}, {}
    ),
    "iree_linalg_ext.map_load": (
        lambda m, n, k: ops.map_load((m, k), (n, 4), "arg0, arg1, 2"),
        {"m": 3, "n": 5, "k": 4},
        {},
    ),
    "iree_linalg_ext.map_store": (
        lambda m, n, k: ops.map_store((m, k), (n, 4), "arg0, arg1, arg0 < 2"),
        {"m": 3, "n": 5, "k": 4},
        {},
    ),
    "iree_linalg_ext.sort": (lambda m, n: ops.sort((m, n), dimension=1), {"m": 3, "n": 4}, {}),
    "iree_linalg_ext.topk": (
        lambda m, n: ops.topk((m, n), k=2, dimension=1), {"m": 3, "n": 4}, {}
    ),
    "iree_linalg_ext.topk_v2": (
        lambda m, n: ops.topk_v2((m, n), k=1, dimension=1),
        {"m": 3, "n": 4},
        {"n": ("output_values axis 1 has extent 1; expected at most 0", "")},
    ),
    "iree_linalg_ext.im2col": (
        lambda b, h, c: ops.im2col(
            (b, h, 5, c), kernel_size=(2, 3), batch_pos=(0,), m_pos=(1, 2), k_pos=(3,)
        ),
        {"b": 2, "h": 4, "c": 3},
        {"h": "input axis 1 has extent 0; (the window spans 2|expected at least 2)"},
    ),
    "iree_linalg_ext.im2col of given rows": (
        lambda c: ops.im2col(
            (1, 4, 5, c), (1, 7, 6), kernel_size=(2, 3), batch_pos=(0,), m_pos=(1, 2), k_pos=(3,)
        ),
        {"c": 3},
        {},
    ),
    "iree_linalg_ext.arg_compare": (
        lambda m, n: ops.arg_compare((m, n), dimension=1), {"m": 3, "n": 4}, {}
    ),
    "iree_linalg_ext.winograd.filter_transform": (
        lambda c, f: ops.winograd_filter_transform((3, 3, c, f)), {"c": 2, "f": 3}, {}
    ),
    "iree_linalg_ext.winograd.input_transform": (
        lambda n, h, c: ops.winograd_input_transform((n, h, 9, c)),
        {"n": 2, "h": 8, "c": 3},
        {"h": "axis 1 has extent 0; (the kernel has 3|expected at least 3)"},
    ),
    "iree_linalg_ext.winograd.input_transform of a tile": (
        lambda h: ops.winograd_input_transform((h, 8)),
        {"h": 8},
        {"h": "axis 0 has extent 0; a tile has some"},
    ),
    "iree_linalg_ext.winograd.output_transform": (
        lambda n, h, c: ops.winograd_output_transform((8, 8, n, h, 2, c)),
        {"n": 2, "h": 2, "c": 3},
        {},
    ),
    "iree_vector_ext.arg_compare": (
        lambda m, n: vector_ext.arg_compare((m, n), dimension=1),
        {"m": 3, "n": 4},
        {"m": VECTORS, "n": VECTORS},
    ),
    "iree_vector_ext.transfer_gather": (
        lambda m, n, v: vector_ext.transfer_gather(
            (m, n), (v,), result=(v, 4), padding=2,
            indexing_maps=["(d0, d1)[s0] -> (s0, d1)", "(d0, d1)[s0] -> (d0)"],
        ),
        {"m": 3, "n": 4, "v": 4},
        {"n": ("axis 1 of base is accessed from 0 to 3", ""), "v": VECTORS},
    ),
    "iree_vector_ext.transfer_scatter": (
        lambda m, n, v: vector_ext.transfer_scatter(
            (v, 4), (m, n), (v,),
            indexing_maps=["(d0, d1)[s0] -> (s0, d1)", "(d0, d1)[s0] -> (d0)"],
        ),
        {"m": 3, "n": 4, "v": 4},
        {"n": ("axis 1 of base is accessed from 0 to 3", ""), "v": VECTORS},
    ),
    "iree_vector_ext.to_layout": (
        lambda m, n: vector_ext.to_layout((m, n), LINES), {"m": 8, "n": 8}, {}
    ),
    "iree_vector_ext.to_simt": (
        lambda m: vector_ext.to_simt((m, 8), LINES, num_subgroups=1, subgroup_size=64),
        {"m": 8},
        {"m": VECTORS},
    ),
    "iree_vector_ext.to_simd": (
        lambda m: vector_ext.to_simd((1, m, 1, 1), LINES, num_subgroups=1, subgroup_size=64),
        {"m": 64},
        {"m": VECTORS},
    ),
    "tvm_iree_ext.conv_2d": (
        lambda n, h, c, f: ops.conv_2d(
            (n, h, 5, c), (3, 3, c, f), [(f,)], padding=((2, 1), (1, 1)), epilogue="arg0 + arg1"
        ),
        {"n": 2, "h": 4, "c": 3, "f": 4},
        {},
    ),
    "tvm_iree_ext.conv_2d of no padding": (
        lambda h, k: ops.conv_2d((1, h, 5, 2), (k, 3, 2, 2), layout="NHWC"),
        {"h": 4, "k": 3},
        {"h": "input has 0 rows|expected at least 3", "k": "0 x 3 taps|expected a number"},
    ),
    "tvm_iree_ext.contraction": (
        lambda m, n, k: ops.matmul((m, k), (k, n)), {"m": 3, "n": 4, "k": 5}, {}
    ),
    "tvm_iree_ext.contraction and epilogue": (
        lambda b, m, n, k: ops.matmul((b, m, k), (b, k, n), [(n,)], epilogue="exp(arg0) + arg1"),
        {"b": 2, "m": 3, "n": 4, "k": 5},
        {},
    ),
    "tvm_iree_ext.contraction with init": (
        lambda m, n, k: ops.matmul((m, k), (k, n), init=(m, n)), {"m": 3, "n": 4, "k": 5}, {}
    ),
    "tvm_iree_ext.contraction of halves with init": (
        lambda m, n, k: ops.matmul((m, k), (k, n), init=(m, n), dtype="float16"),
        {"m": 3, "n": 4, "k": 5},
        {},
    ),
    "tvm_iree_ext.contraction of bytes": (
        lambda m, n, k: ops.matmul((m, k), (k, n), dtype="int8"), {"m": 3, "n": 4, "k": 5}, {}
    ),
    "tvm_iree_ext.contraction with prologue": (
        lambda m, n, k: ops.contraction(
            (m, k), (k, n), prologue="arg0 * arg1", prologue_operands=[(n,)],
            indexing_maps=["(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (n)",
                           "(m, n, k) -> (m, n)"],
        ),
        {"m": 3, "n": 4, "k": 5},
        {},
    ),
    "tvm_iree_ext.grouped_matmul": (
        lambda g, m, n, k: ops.grouped_matmul((m, k), (g, k, n), (g,), [(n,)],
                                              epilogue="arg0 + arg1"),
        {"g": 2, "m": 8, "n": 4, "k": 5},
        {},
    ),
}  # fmt: skip

# Extents that are numbers, for the op or for its rules.
STATIC = {
    "iree_linalg_ext.map_load": "n",
    "tvm_iree_ext.fft_transform": "n",
    "iree_linalg_ext.winograd.input_transform of a tile": "h",
    "iree_vector_ext.arg_compare": "mn",
    "iree_vector_ext.transfer_gather": "v",
    "iree_vector_ext.transfer_scatter": "v",
    "iree_vector_ext.to_simt": "m",
    "iree_vector_ext.to_simd": "m",
    "tvm_iree_ext.conv_2d": "cf",
    "tvm_iree_ext.conv_2d of no padding": "k",
}

EMPTY = [(case, extent) for case, (_, extents, _) in CASES.items() for extent in extents]


def made(case, extent, value):
    make, extents, _ = CASES[case]
    return make(**{**extents, extent: value})


def reasons(case, extent):
    why = CASES[case][2].get(extent, "")
    return (why, why) if isinstance(why, str) else why


def operands(op, values):
    rng = np.random.default_rng(0)
    return {
        one.name: rng.integers(1, 3, [values.get(e, e) for e in one.shape]).astype(one.dtype)
        for one in op.signature.arguments
    }


def agrees(op, given, results):
    entry = ENTRIES[op.name]
    want = entry.reference(op, given)
    tolerance = entry.tolerance(op, given, want)
    for name, expected in want.items():
        assert results[name].shape == expected.shape
        assert not first_difference(name, results[name], expected, tolerance[name])


def called(op, given, shapes):
    kernel = ext.build(op)
    missing = op.signature.result_symbols
    out = {}
    if missing:
        (result,) = op.signature.results
        out["out"] = np.zeros([shapes.get(e, e) for e in result.shape], result.dtype)
    results = kernel(*given.values(), **out)
    listed = results if isinstance(results, tuple) else (results,)
    return {one.name: r for one, r in zip(op.signature.results, listed, strict=True)}


def test_every_op_of_the_table_has_a_case():
    assert {case.partition(" ")[0] for case in CASES} == set(ENTRIES)


@pytest.mark.costly
@pytest.mark.parametrize(("case", "extent"), EMPTY)
def test_an_op_with_a_known_extent_of_0_is_its_reference_or_refused(case, extent):
    why = reasons(case, extent)[0]
    if why:
        with pytest.raises(OpError, match=why):
            made(case, extent, 0)
        return
    op = made(case, extent, 0)
    names = {"r": 0, "c": 6} if extent == "m" else {"r": 5, "c": 0}  # those of out alone
    given = operands(op, names)
    if op.signature.result_symbols:
        assert all(result.size == 0 for result in called(op, given, names).values())
        return
    agrees(op, given, called(op, given, names))
    if any(result.size for result in ENTRIES[op.name].reference(op, given).values()):
        agrees(op, given, simulate_op(op, "rocm:gfx942", given).check().results)


@pytest.mark.costly
@pytest.mark.parametrize(("case", "extent"), EMPTY)
def test_a_call_with_an_extent_of_0_is_the_reference_or_refused(case, extent):
    why = reasons(case, extent)[1]
    if extent in STATIC.get(case, ""):
        with pytest.raises((OpError, ScheduleError), match=f"{why}|number"):
            ext.build(made(case, extent, extent))
        return
    op = made(case, extent, extent)
    names = {"r": 0, "c": 6} if extent == "m" else {"r": 5, "c": 0}
    given = operands(op, {**names, extent: 0})
    if why:
        with pytest.raises(CallError, match=why):
            called(op, given, {**names, extent: 0})
    elif extent not in op.signature.may_be_0:
        caller = Caller(op.name, op.signature)
        (*_, last) = op.signature.results
        out = (
            np.zeros([names.get(e, 1) for e in last.shape]) if op.signature.result_symbols else None
        )
        shapes, copies = caller.plan([one.shape for one in given.values()], out)
        assert copies == []  # nor any kernel
        assert all(0 in shape for shape in shapes)
    else:
        agrees(op, given, called(op, given, names))
        full = operands(op, {extent: CASES[case][1][extent]})
        agrees(op, full, called(op, full, names))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("case", "extent"),
    [("tvm_iree_ext.contraction and epilogue", "k"), ("tvm_iree_ext.grouped_matmul", "g")],
)
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_a_launch_plan_has_kernels_for_an_extent_of_0(case, extent, target):
    op = made(case, extent, extent)
    for value in (0, CASES[case][1][extent]):
        given = operands(op, {extent: value})
        agrees(op, given, simulate_op(op, target, given).check().results)


@pytest.mark.parametrize("count", [0, 2])
def test_a_number_of_128_bits_of_a_call_pads_an_image_that_may_be_empty(count):
    op = ops.im2col(
        ops.TensorType(("n", 6, 3), "complex128"), batch_pos=[0], m_pos=[1], k_pos=[2],
        kernel_size=[2], strides=[1], dilations=[1], input_pad_low=[0, 1, 0], pad_value="operand",
    )  # fmt: skip
    given = operands(op, {"n": count})
    agrees(op, given, called(op, given, {"n": count}))
