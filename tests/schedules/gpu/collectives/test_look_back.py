"""Workgroups that tell one another what their parts have: in whatever order they start."""

from dataclasses import replace

import numpy as np
import pytest
from cut_lines import cut_small
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.intrin.handed_words import awaited, publish, seen
from tvm_iree_ext.registry import find
from tvm_iree_ext.schedules.gpu.collectives.look_back import PartsMemory
from tvm_iree_ext.schedules.gpu.emit.launches import launched
from tvm_iree_ext.schedules.gpu.scan import scan_kernels
from tvm_iree_ext.schedules.gpu.scan.scan_rule import GpuScan
from tvm_iree_ext.schedules.gpu.sort import radix_passes
from tvm_iree_ext.simulator.runs.simulated_ops import simulate_function, simulate_op
from tvm_iree_ext.targets.names import make_target

RADIX = LoweringConfig("radix", workgroup_tile={"elements": 64, "lanes": 64})


def backwards(grid):
    return [(x, 0, 0) for x in reversed(range(grid[0]))]


def shuffled(grid):
    return [(int(x), 0, 0) for x in np.random.default_rng(3).permutation(grid[0])]


def narrow_tiles(op, target):
    """A config of tiles of an element for each lane of a subgroup."""
    usual = replace(GpuScan().heuristic(op, make_target(target)), vector_lanes=1)
    return cut_small(usual, target, 1, 1, 0)


def lines(dtype, shape):
    x = np.random.default_rng(5).standard_normal(shape).astype(dtype)
    return {"input": x, "accumulator_init": np.ones(shape[:-1], dtype)}


@pytest.mark.costly
@pytest.mark.parametrize(
    ("target", "dtype", "shape", "orders"),
    [
        ("cuda:sm_80", "float32", (4500,), (None, backwards, shuffled)),
        ("rocm:gfx1100", "float64", (2, 4200), (None, shuffled)),
    ],
)
def test_sums_of_floats_are_the_same_in_whatever_order_workgroups_start(
    target, dtype, shape, orders
):
    """Of parts in two groups, and of one line or two."""
    op = ops.scan(
        shape, dimension=len(shape) - 1, dtype=dtype, inclusive=dtype == "float32", reassociate=True
    )
    given, config = lines(dtype, shape), narrow_tiles(op, target)
    found = []
    for order in orders:
        done = simulate_op(op, target, given, config, workgroups=order).check()
        found.append(done.results["output"])
    assert len({one.tobytes() for one in found}) == 1
    want = find(op.name).reference(op, given)["output"]
    np.testing.assert_allclose(found[0], want, rtol=0, atol=1e-3 if dtype == "float32" else 1e-11)


def test_digits_are_sorted_in_whatever_order_workgroups_start():
    keys = np.random.default_rng(6).integers(0, 999, (2, 500)).astype(np.uint16)
    op = ops.sort(keys, dimension=1)
    done = simulate_op(op, "cuda:sm_80", {"operand0": keys}, RADIX, workgroups=backwards).check()
    np.testing.assert_array_equal(done.results["result0"], np.sort(keys, axis=1))


def plain_store(_memory, place, value):
    I.buffer_store(
        _memory.words, tirx.Cast("uint64", value) | tirx.const(1 << 32, "uint64"), [place]
    )


def plain_publish(_kind, buffer, position, word):
    I.buffer_store(buffer, word, [position])
    return tirx.const(0, "int32")


def scan_of_parts(**how):
    op = ops.scan((200,), dtype="int32", dimension=0)
    target = "cuda:sm_80"
    given = {"input": np.ones(200, "int32"), "accumulator_init": np.array(0, "int32")}
    return simulate_op(op, target, given, narrow_tiles(op, target), **how)


def test_a_word_that_is_stored_and_not_published_is_a_race(monkeypatch):
    scan_of_parts().check()
    monkeypatch.setattr(PartsMemory, "publish", plain_store)
    with pytest.raises(SimulationError, match=r"race: 8-byte element .* of words_of_parts"):
        scan_of_parts().check()
    monkeypatch.setattr(radix_passes, "publish", plain_publish)
    keys = np.arange(200, dtype=np.uint8)
    with pytest.raises(SimulationError, match=r"race: 4-byte element .* of words_of_tiles"):
        simulate_op(ops.sort(keys, dimension=0), "rocm:gfx942", {"operand0": keys}, RADIX).check()


def test_without_tickets_a_workgroup_that_starts_first_waits_for_ever(monkeypatch):
    numbers = []
    workgroups = scan_kernels.workgroups

    class Launch:
        def __init__(self, *args):
            self.launch = workgroups(*args)

        def __enter__(self):
            found = self.launch.__enter__()
            numbers.append(found[0])
            return found

        def __exit__(self, *error):
            return self.launch.__exit__(*error)

    monkeypatch.setattr(scan_kernels, "workgroups", Launch)
    monkeypatch.setattr(scan_kernels, "take_ticket", lambda *_: tirx.Cast("int32", numbers[-1]))
    scan_of_parts().check()
    with pytest.raises(SimulationError, match=r"divergent barrier: .*nobody publishes element"):
        scan_of_parts(workgroups=backwards).check()


def handed(inside_the_word):
    """Workgroup 0 hands workgroup 1 a number: beside a flag, or in the word itself."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("handed")
        I.func_attr({"global_symbol": "handed", "tirx.noalias": True})
        words = I.arg("words", I.buffer((1,), "uint32"))
        data = I.arg("data", I.buffer((1,), "int32"))
        found = I.arg("found", I.buffer((1,), "int32"))
        with launched(2, 1, 32) as (number, _, lane), I.If(lane == 0), I.Then():
            zero = tirx.const(0, "int64")
            with I.If(number == 0):
                with I.Then():
                    I.buffer_store(data, tirx.const(41, "int32"), [0])
                    word = tirx.const(42, "uint32")
                    I.evaluate(publish("cuda", words, zero, word))
                with I.Else():
                    word = I.Bind(awaited("cuda", words, zero, seen("cuda", words, zero)))
                    value = tirx.Cast("int32", word) - 1 if inside_the_word else data[0]
                    I.buffer_store(found, value, [0])
    return builder.get()


@pytest.mark.parametrize("inside_the_word", [True, False])
def test_a_flag_orders_no_plain_accesses(inside_the_word):
    words, data, found = np.zeros(1, "uint32"), np.zeros(1, "int32"), np.zeros(1, "int32")
    given = {"words": words, "data": data, "found": found}
    (done,) = simulate_function(handed(inside_the_word), "cuda:sm_80", given, written=["words"])
    assert found.tolist() == [41]
    races = {(one.kind, one.buffer) for one in done.findings}
    assert races == (set() if inside_the_word else {("race", "data")})
