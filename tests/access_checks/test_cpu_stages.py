"""Checked kernels: what is right passes at every stage; a fault in a pass is found, and named."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.script import tirx as T

from tvm_iree_ext import ops
from tvm_iree_ext.access_checks.cpu_stage_run import (
    checks_after,
    first_wrong,
    results_twice,
    run_op,
)
from tvm_iree_ext.access_checks.cpu_stages import LAST, SCHEDULED, STAGES, cut_after
from tvm_iree_ext.base.errors import OpError, SimulationError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.codegen.linker import compile_library
from tvm_iree_ext.codegen.pass_seam import chosen
from tvm_iree_ext.program_checks.program_suite import check_programs
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.verify import kernel_checks

HERE = make_target("llvm")
ROWS, KEYS = 5, 7
ATTENTION = ops.attention((1, 1, ROWS, 8), (1, 1, KEYS, 8), (1, 1, KEYS, 4))
OPEN = ops.attention((1, 1, "rows", 8), (1, 1, "keys", 8), (1, 1, "keys", 4))


def wrong_with(op, operands):
    """What is wrong with an op's kernel, of the first stage at which something is."""
    entry = ENTRIES[op.name]
    want = entry.reference(op, operands)

    def wrong(stage):
        try:
            got = run_op(op, operands, HERE, stage)
        except SimulationError as error:
            return str(error)
        near = all(np.allclose(got[name], want[name], 1e-4, 1e-4) for name in want)
        return "" if near else "another result"

    return first_wrong(wrong)


def attention_operands():
    rng = np.random.default_rng(3)
    shapes = {"query": (1, 1, ROWS, 8), "key": (1, 1, KEYS, 8), "value": (1, 1, KEYS, 4)}
    return {name: rng.standard_normal(shape, "float32") for name, shape in shapes.items()}


def plant(monkeypatch, stage, fault):
    """Let a pass of the pipeline do something wrong after its work."""

    def with_fault(passes):
        assert stage in [one.info.name for one in passes]
        return chosen(
            [
                ir.transform.Sequential([one, fault], name=stage) if one.info.name == stage else one
                for one in passes
            ]
        )

    monkeypatch.setattr(cpu_pipeline, "chosen", with_fault)


def allocated(func):
    buffers = []
    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, lambda node: buffers.append(node.buffer)))
    return buffers


@tirx.transform.prim_func_pass(opt_level=0)
def reads_the_next(func, _mod, _ctx):
    """Loads of single elements of local buffers name the element behind."""
    buffers = allocated(func)

    def load(node):
        index = node.indices[-1]
        if not any(node.source.same_as(b) for b in buffers) or "x" in str(index.ty.dtype):
            return node
        return tirx.BufferLoad(node.source, [*node.indices[:-1], index + 1])

    return func.with_body(tvm_ffi.structural_map(func.body, (TensorLoad, load)))


@tirx.transform.prim_func_pass(opt_level=0)
def shares_what_is_live(func, _mod, _ctx):
    """Two buffers of one kind are one, whatever is in them."""
    first = {}
    replaced = {}
    for buffer in allocated(func):
        kind = str(buffer.dtype), buffer.scope(), tuple(map(str, buffer.shape))
        replaced[buffer] = first.setdefault(kind, buffer)

    def load(node):
        return tirx.BufferLoad(replaced.get(node.source, node.source), node.indices)

    def store(node):
        return tirx.BufferStore(replaced.get(node.buffer, node.buffer), node.value, node.indices)

    assert len(first) < len(replaced)
    handlers = [(TensorLoad, load), (tirx.BufferStore, store)]
    return func.with_body(tvm_ffi.structural_map(func.body, handlers))


@tirx.transform.prim_func_pass(opt_level=0)
def forgets_stores(func, _mod, _ctx):
    """Nothing is stored to local buffers."""
    forgotten = allocated(func)

    def store(node):
        is_forgotten = any(node.buffer.same_as(buffer) for buffer in forgotten)
        return tirx.Evaluate(tirx.const(0, "int32")) if is_forgotten else node

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.BufferStore, store)))


FAULTS = [reads_the_next, shares_what_is_live, forgets_stores]
PLACES, _, PARTS, _, SHARES, *LATER = STAGES[1:]


@pytest.mark.costly
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_pass_that_shares_storage_is_found_and_the_pass_named(monkeypatch, fault):
    plant(monkeypatch, SHARES, fault)
    assert wrong_with(ATTENTION, attention_operands()).startswith(f"after {SHARES}: ")


@pytest.mark.parametrize("stage", LATER)
def test_a_fault_in_a_later_pass_is_found(monkeypatch, stage):
    plant(monkeypatch, stage, reads_the_next)
    assert wrong_with(ATTENTION, attention_operands())


@tirx.transform.prim_func_pass(opt_level=0)
def stores_zeros(func, _mod, _ctx):
    """Whatever is stored is 0."""

    def store(node):
        return tirx.BufferStore(node.buffer, node.value * 0, node.indices)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.BufferStore, store)))


@pytest.mark.costly
@pytest.mark.parametrize("stage", [PLACES, PARTS])
def test_a_fault_before_loops_are_vectors_is_found_and_the_pass_named(monkeypatch, stage):
    plant(monkeypatch, stage, stores_zeros)
    assert wrong_with(ATTENTION, attention_operands()) == f"after {stage}: another result"


def test_a_right_kernel_is_right_at_every_stage():
    operands = attention_operands()
    want = ENTRIES[OPEN.name].reference(OPEN, operands)["output"]
    for stage in STAGES:
        got = run_op(OPEN, operands, HERE, stage)["output"]
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)


@T.prim_func(s_tir=True)
def beyond_a_tile(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    with T.sblock("root"):
        tile = T.sblock_alloc_buffer((4,), "float32", scope="local")
        for i in range(8):
            with T.sblock("copy"):
                v = T.axis.opaque(8, i)
                tile[v % 4] = x[v]
                y[v] = T.if_then_else(v < 4, tile[v], T.float32(0))
        for i in range(8):
            with T.sblock("unguarded"):
                v = T.axis.opaque(8, i)
                y[v] = y[v] + tile[v - 1]


@T.prim_func(s_tir=True)
def unwritten(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    with T.sblock("root"):
        tile = T.sblock_alloc_buffer((8,), "float32", scope="local")
        for i in range(7):
            with T.sblock("write"):
                v = T.axis.opaque(7, i)
                tile[v] = x[v]
        for i in range(8):
            with T.sblock("read"):
                v = T.axis.opaque(8, i)
                y[v] = tile[v]


def called_twice(function, folder, stage=SCHEDULED):
    """The results of a function ``(x, y)`` of eight floats."""
    cpu_pipeline.register()
    library = folder / "kernel.so"
    with checks_after(stage):
        compile_library(tvm.IRModule({"main": function}), HERE, library, cpu_pipeline.CPU_PIPELINE)
    main = tvm_ffi.load_module(str(library))["main"]

    def call(x, out=None):
        out = np.empty(8, "float32") if out is None else out
        main(x, out)
        return out

    return results_twice(call, [np.ones(8, "float32")])


@pytest.mark.parametrize("stage", [SCHEDULED, LAST])
def test_an_index_outside_of_a_local_buffer_is_refused_and_told(tmp_path, stage):
    with pytest.raises(SimulationError, match=r"index -1 is outside of 0\.\.3 in the load tile"):
        called_twice(beyond_a_tile, tmp_path, stage)


def test_memory_that_nobody_wrote_is_noise(tmp_path):
    with pytest.raises(SimulationError, match="depend on memory that nobody wrote"):
        called_twice(unwritten, tmp_path)


def test_a_guarded_index_is_asked_for_only_where_its_condition_holds(tmp_path):
    body = beyond_a_tile.body
    guarded = beyond_a_tile.with_body(
        type(body)(body.iter_values, body.predicate, _first_block_only(body.block))
    )
    (result,) = called_twice(guarded, tmp_path)
    assert result.tolist() == [1.0] * 4 + [0.0] * 4


def _first_block_only(block):
    from tvm.s_tir import SBlock

    first = block.body.seq[0]
    return SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, first,
        alloc_buffers=block.alloc_buffers,
    )  # fmt: skip


def test_what_is_built_without_checks_calls_none(tmp_path):
    kernel = build(ops.scan((5, 7), dimension=1), folder=tmp_path / "kernel")
    assert kernel is not None
    assert b"tvm_iree_ext_index" not in (tmp_path / "kernel" / "kernel.so").read_bytes()


@pytest.mark.costly
@pytest.mark.parametrize("name", ENTRIES)
def test_random_cases_are_right_after_the_schedule_and_after_all_passes(name):
    cases = kernel_checks.random_cases([name], count=1)
    failed = [
        result for result in kernel_checks.check(cases, passes=True) if result.status != "passed"
    ]
    assert not failed


def test_unknown_stages_are_refused():
    with pytest.raises(OpError, match="stage is 'none'; expected one of the schedule, "):
        cut_after("none")


@pytest.mark.costly
@pytest.mark.parametrize("how", [{"passes": True}, {"guard": True}], ids=["passes", "guard"])
def test_recorded_programs_are_right_stage_by_stage_and_with_guarded_arrays(root, tmp_path, how):
    for name in ("argmax", "sdpa_causal", "embedding"):
        for suffix in (".mlir", ".npz"):
            path = root / "tests" / "data" / "ir" / f"{name}{suffix}"
            (tmp_path / path.name).write_bytes(path.read_bytes())
    outcomes = check_programs(tmp_path, **how, limit_s=600.0)
    assert [str(one) for one in outcomes if not one.passed] == []
