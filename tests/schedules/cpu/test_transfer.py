"""The CPU kernels of the transfers: right in every form, on hard shapes and wild indices."""

import dataclasses
import re

import numpy as np
import pytest
import tvm

from tvm_iree_ext import build
from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.bench.cases import transfer as bench
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.ops import TensorType
from tvm_iree_ext.ops.vector_ext import transfer_gather, transfer_scatter
from tvm_iree_ext.schedules.cpu.transfer_rule import CpuTransfer
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks

RULE = CpuTransfer()
ROWS = ("(d0, d1)[s0] -> (s0, d1)", "(d0, d1)[s0] -> (d0)")
NAMES = ["iree_vector_ext.transfer_gather", "iree_vector_ext.transfer_scatter"]


def config_of(op, **changes):
    return dataclasses.replace(RULE.heuristic(op, make_target("llvm")), **changes)


def check(op, operands, config=None):
    result = kernel_checks.check_op(op, operands, config=config)
    assert result.status == "passed", result.message


def base_of(shape, dtype="float32"):
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


@pytest.mark.costly
@pytest.mark.parametrize("width", [1, 3, 15, 16, 17, 64, 131, 768, 4100])
def test_embedding_rows_of_every_width(width):
    base, index = base_of((50, width)), np.random.default_rng(1).integers(0, 50, 33)
    op = transfer_gather(("rows", width), index, result=(33, width), indexing_maps=ROWS)
    np.testing.assert_array_equal(build(op)(base, index), base[index])


@pytest.mark.costly
@pytest.mark.parametrize("shape", [(16, 16), (17, 33), (31, 32), (5, 100), (3, 3), (70, 4)])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_transposes_whole_squares_and_what_is_left_over(shape, dtype):
    base = base_of(shape[::-1], dtype)
    op = transfer_gather(base, result=shape, indexing_maps=("(d0, d1)[] -> (d1, d0)",))
    np.testing.assert_array_equal(build(op)(base), base.T)
    back = transfer_scatter(base.T, base, indexing_maps=("(d0, d1)[] -> (d1, d0)",))
    np.testing.assert_array_equal(build(back)(base.T.copy(), np.zeros_like(base)), base)


@pytest.mark.parametrize(("width", "count"), [(64, 32), (100, 33), (1000, 300), (4096, 4096)])
def test_rows_of_which_each_element_has_an_index(width, count):
    base, index = base_of((5, width)), np.random.default_rng(1).integers(0, width, (5, count))
    for kept in (None, np.random.default_rng(2).integers(0, 2, (5, count)).astype(bool)):
        op = transfer_gather(
            base,
            index,
            result=(5, count),
            indexing_maps=["(d0, d1)[s0] -> (d0, s0)", "(d0, d1)[s0] -> (d0, d1)"]
            + ([] if kept is None else ["(d0, d1)[s0] -> (d0, d1)"]),
            **({} if kept is None else {"mask": kept, "padding": -1.0}),
        )
        want = np.take_along_axis(base, index, 1)
        given = (base, index) if kept is None else (base, index, kept)
        want = want if kept is None else np.where(kept, want, np.float32(-1))
        np.testing.assert_array_equal(build(op)(*given), want)


def test_transposes_between_rows_that_indices_choose():
    """Columns of the result are rows of the base, in any order; a mask leaves some planes out."""
    base = base_of((3, 40, 50))
    index, mask = np.random.default_rng(2).permutation(40)[:35], np.array([True, False, True])
    maps = ("(d0, d1, d2)[s0] -> (d0, s0, d1)", "(d0, d1, d2)[s0] -> (d2)")
    op = transfer_gather(
        base, index, result=(3, 50, 35), indexing_maps=(*maps, "(d0, d1, d2)[s0] -> (d0)"),
        mask=mask, padding=-1,
    )  # fmt: skip
    assert config_of(op).algorithm == "squares"
    want = np.where(mask[:, None, None], base[:, index].transpose(0, 2, 1), -1)
    np.testing.assert_array_equal(build(op)(base, index, mask), want)
    op = transfer_scatter(want, base, index, indexing_maps=maps)
    assert config_of(op).algorithm == "squares"
    check(op, {"vector": want.astype("float32"), "base": base, "index0": index})


@pytest.mark.costly
@pytest.mark.parametrize("dims", [(), (0,), (1,), (0, 1), (1, 0)])
def test_masked_positions_touch_no_memory(dims):
    """Their indices lead far outside; a kernel that follows one is killed."""
    rng = np.random.default_rng(3)
    base, mask = base_of((20, 24)), np.asarray(rng.random([(9, 24)[dim] for dim in dims]) < 0.5)
    index = rng.permutation(20)[:9]
    names = ", ".join(f"d{dim}" for dim in dims)
    where = np.broadcast_to(
        mask.T if dims == (1, 0) else mask[:, None] if dims == (0,) else mask, (9, 24)
    )
    index = np.where(where.any(axis=1), index, 2**40)
    maps = (*ROWS, f"(d0, d1)[s0] -> ({names})")
    op = transfer_gather(base, index, result=(9, 24), indexing_maps=maps, mask=mask, padding=-7)
    operands = {"base": base, "index0": index, "mask": mask}
    check(op, operands)
    vector = base_of((9, 24))
    op = transfer_scatter(vector, base, index, indexing_maps=maps, mask=mask)
    check(op, {"vector": vector, **operands})


def test_masked_elements_of_an_inner_gather_touch_no_memory():
    rng = np.random.default_rng(4)
    base, mask = base_of((6, 50)), rng.random((6, 70)) < 0.7
    index = np.where(mask, rng.integers(0, 50, (6, 70)), -(2**45))
    each = "(d0, d1)[s0] -> (d0, d1)"
    maps = ("(d0, d1)[s0] -> (d0, s0)", each, each)
    op = transfer_gather(base, index, result=(6, 70), indexing_maps=maps, mask=mask, padding=5)
    want = np.where(mask, np.take_along_axis(base, np.where(mask, index, 0), 1), 5)
    np.testing.assert_array_equal(build(op)(base, index, mask), want)


def test_identities():
    """Counting is contiguous, a constant index an offset, all of a mask none."""
    base = base_of((6, 7))
    plain = build(
        transfer_gather(
            base, result=(4, 5), indexing_maps=("(d0, d1)[] -> (d0, d1)",), offsets=(2, 1)
        )
    )(base)
    np.testing.assert_array_equal(plain, base[2:, 1:6])
    count = np.arange(4)
    counted = transfer_gather(base, count, result=(4, 5), indexing_maps=ROWS, offsets=(2, 1))
    np.testing.assert_array_equal(build(counted)(base, count), plain)
    shifted = transfer_gather(base, count, result=(4, 5), indexing_maps=ROWS, offsets=(0, 1))
    np.testing.assert_array_equal(build(shifted)(base, count + 2), plain)
    every = np.ones(5, bool)
    masked = transfer_gather(
        base, count, result=(4, 5), indexing_maps=(*ROWS, "(d0, d1)[s0] -> (d1)"),
        offsets=(2, 1), mask=every,
    )  # fmt: skip
    np.testing.assert_array_equal(build(masked)(base, count, every), plain)
    constant = transfer_gather(
        base, (), result=(4, 5), indexing_maps=("(d0, d1)[s0] -> (s0, d1)", "(d0, d1)[s0] -> ()"),
        offsets=(1, 1),
    )  # fmt: skip
    np.testing.assert_array_equal(build(constant)(base, 3), np.broadcast_to(base[4, 1:6], (4, 5)))


def test_a_diagonal_by_one_symbol_twice_and_a_symbol_unused():
    base, index = base_of((9, 9)), np.array([8, 0, 3], "uint8")
    maps = (
        "(d0)[s0, s1] -> (s0, s0)",
        "(d0)[s0, s1] -> (d0)",
        "(d0)[s0, s1] -> (d0)",
    )
    op = transfer_gather(base, index, (3,), result=(3,), indexing_maps=maps)
    got = build(op)(base, index, np.array([2**50, -1, 7]))
    np.testing.assert_array_equal(got, base[index, index])


def test_a_scalar_result():
    base = base_of((4, 5))
    maps = ("()[s0, s1] -> (s0, s1)", "()[s0, s1] -> ()", "()[s0, s1] -> ()")
    op = transfer_gather(base, (), (), result=(), indexing_maps=maps)
    assert build(op)(base, 3, 2) == base[3, 2]
    op = transfer_scatter((), base, (), (), indexing_maps=maps)
    got = build(op)(np.array(-1, "float32"), base, 3, 2)
    assert got[3, 2] == -1
    assert (got != base).sum() == 1


@pytest.mark.parametrize("dtype", ["bool", "uint64", "bfloat16", "float16", "float64"])
def test_what_is_given_at_call_time(dtype):
    kind = TensorType(("n", 6), dtype)
    maps = (*ROWS, "(d0, d1)[s0] -> (d1)")
    op = transfer_gather(
        kind, (3,), result=(3, 4), indexing_maps=maps, mask=(4,), offsets=("operand", "operand"),
        padding="operand",
    )  # fmt: skip
    base = base_of((10, 6)).astype(numpy_dtype(dtype))
    operands = {
        "base": base,
        "offset0": 2,
        "offset1": 1,
        "index0": np.array([7, 0, -2]),
        "mask": np.array([True, False, True, False]),
        "padding": True if dtype == "bool" else 3 if dtype == "uint64" else 2.5,
    }
    check(op, operands)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("unit", [1, 64, 10**6])
def test_any_config_computes_the_same(threads, unit):
    base, index = base_of((20, 3, 40)), np.random.default_rng(5).integers(0, 20, (7, 5))
    maps = (
        "(d0, d1, d2, d3)[s0] -> (s0, d2, d3)",
        "(d0, d1, d2, d3)[s0] -> (d0, d1)",
    )
    op = transfer_gather(base, index, result=(7, 5, 3, 37), indexing_maps=maps, offsets=(0, 0, 2))
    tile = {"rows": 1, "columns": 16, "unit": unit}
    check(op, {"base": base, "index0": index}, config_of(op, workgroup_tile=tile, splits=threads))


def test_rows_are_moved_in_vectors_and_elements_gathered_in_them():
    target = make_target("llvm:x86-64-v4")
    cases = {
        r"vmovups.*%[yz]mm": transfer_gather(
            (50, 768), (64,), result=(64, 768), indexing_maps=ROWS
        ),
        r"v(p?)gather": transfer_gather(
            (8, 500),
            TensorType((8, 256), "i32"),
            result=(8, 256),
            indexing_maps=("(d0, d1)[s0] -> (d0, s0)", "(d0, d1)[s0] -> (d0, d1)"),
        ),
    }
    cpu_pipeline.register()
    for instruction, op in cases.items():
        module = RULE.lower(op, target, RULE.heuristic(op, target))
        library = tvm.compile(module, target, tir_pipeline=cpu_pipeline.CPU_PIPELINE)
        text = library.mod.inspect_source("asm")
        assert re.search(instruction, text)
        assert "prefetch" in text  # the rows that come next


@pytest.mark.parametrize(
    "case",
    [
        bench.embedding_case(16, 1000, 40),
        bench.paged_case(9, 4, 3, 16, 5),
        bench.inner_case(5, 60, 33),
        bench.transpose_case(40, 50),
        bench.scatter_case(16, 1000, 40),
    ],
    ids=lambda case: case.name,
)
def test_the_benchmarks_peers_compute_the_same(case):
    values = case.operands()
    judge = case.check(values)
    got = build(case.op)(*(values[o.name] for o in case.op.signature.arguments))
    assert judge(got) is None
    assert judge(case.peers[0].make(values)()) is None
    assert judge(got + 1) is not None
    pytest.importorskip("torch", reason="PyTorch is an optional peer: scripts/setup dev bench")
    assert judge(case.peers[1].make(values)()) is None


BAD_CONFIGS = {
    "algorithm": ({"algorithm": "fold"}, "algorithm is 'fold'; expected 'rows'"),
    "squares": ({"algorithm": "squares"}, "algorithm is 'squares'; expected 'rows'"),
    "tile": ({"workgroup_tile": {"rows": 1, "columns": 0}}, r"\['columns'\] is 0"),
    "splits": ({"splits": 0}, "splits is 0; expected a number from 1"),
}


@pytest.mark.parametrize("case", BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_refuses_a_config(case):
    changes, message = case
    op = transfer_gather((6, 4), (3,), result=(3, 4), indexing_maps=ROWS)
    with pytest.raises(ScheduleError, match=message):
        RULE.lower(op, make_target("llvm"), config_of(op, **changes))


def test_refuses_squares_that_do_not_fill_the_rows():
    op = transfer_gather((64, 64), result=(64, 64), indexing_maps=("(d0, d1)[] -> (d1, d0)",))
    changed = config_of(op, workgroup_tile={"rows": 24, "columns": 64, "unit": 64})
    with pytest.raises(
        ScheduleError, match=r"workgroup_tile\['rows'\] .*; expected a multiple of 16"
    ):
        RULE.lower(op, make_target("llvm"), changed)


FAR = (-(2**63), -(2**62), -1, 6, 2**31, 2**62, 2**63 - 1)


def amid(array):
    """A copy of an array amid canaries, and those."""
    around = np.full((array.shape[0] + 64, *array.shape[1:]), 77, array.dtype)
    around[32:-32] = array
    return around[32:-32], around


@pytest.mark.parametrize("extents", [(6, 4), ("rows", "columns")], ids=["known", "open"])
@pytest.mark.parametrize("masked", [False, True])
def test_what_lies_outside_is_padding_and_is_not_written(extents, masked):
    maps = [
        "(d0, d1)[s0, s1] -> (s0, s1)",
        "(d0, d1)[s0, s1] -> (d0)",
        "(d0, d1)[s0, s1] -> (d1)",
        *(["(d0, d1)[s0, s1] -> (d0)"] if masked else []),
    ]
    rows, columns = np.array([5, *FAR, 0]), np.array([3, 0, *FAR[:3], 4])
    given = {"indexing_maps": maps, "offsets": ("operand", 1), "mask": (9,) if masked else None}
    kinds = [TensorType(one.shape, "int64") for one in (rows, columns)]
    gather = build(transfer_gather(extents, *kinds, result=(9, 6), padding=-1, **given))
    scatter = build(transfer_scatter((9, 6), extents, *kinds, **given))
    base, _ = amid(base_of((6, 4)))
    result, around_result = amid(np.zeros((9, 6), "float32"))
    written, around_written = amid(np.zeros((6, 4), "float32"))
    vector = base_of((9, 6))
    kept = np.arange(9) != 8
    for offset in (0, 1, *FAR):
        rest = (offset, rows, columns, *([kept] if masked else []))
        gather(base, *rest, out=result)
        scatter(vector, base, *rest, out=written)
        want, after = np.full((9, 6), -1, "float32"), base.copy()
        for i, j in np.ndindex(9, 6):
            place = offset + int(rows[i]), 1 + int(columns[j])
            # A sum of two numbers beyond any extent lies outside, too, whatever it is.
            if (
                abs(offset) < 2**31
                and (kept[i] or not masked)
                and 0 <= place[0] < 6
                and 0 <= place[1] < 4
            ):
                want[i, j] = base[place]
                after[place] = vector[i, j]
        np.testing.assert_array_equal(result, want)
        np.testing.assert_array_equal(written, after)
        for around in (around_result, around_written):
            assert (np.delete(around, np.s_[32:-32], axis=0) == 77).all()


@pytest.mark.parametrize("masked", [False, True])
def test_a_window_that_begins_anywhere_is_cut_at_both_ends(masked):
    maps = ["(d0, d1)[] -> (d1, d0)", *(["(d0, d1)[] -> (d1)"] if masked else [])]
    kept = np.array([True, False, True, True])
    given = {"offsets": ("operand", "operand"), "mask": (4,) if masked else None}
    op = transfer_gather((6, 5), result=(3, 4), indexing_maps=maps, padding=-1, **given)
    gather, base = build(op), base_of((6, 5))
    for at in [(i, j) for i in (*FAR, -3, 4) for j in (-2, 0, 3, 5, *FAR[:2])]:
        want = np.full((3, 4), -1, "float32")
        for i, j in np.ndindex(3, 4):
            place = at[0] + j, at[1] + i
            if (kept[j] or not masked) and 0 <= place[0] < 6 and 0 <= place[1] < 5:
                want[i, j] = base[place]
        np.testing.assert_array_equal(gather(base, *at, *([kept] if masked else [])), want)


def test_an_unsigned_index_beyond_int64_lies_outside():
    index = np.array([2**64 - 1, 2**63, 2, 0], "uint64")
    op = transfer_gather((6, 4), index, result=(4, 4), indexing_maps=ROWS, offsets=(1, 0))
    base = base_of((6, 4))
    np.testing.assert_array_equal(build(op)(base, index)[:, 0], [0, 0, base[3, 0], base[1, 0]])
