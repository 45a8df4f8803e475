"""Branches on one condition become one with a fence at one end; others are left as they are."""

import tvm
from tvm import tirx
from tvm.script import tirx as T

from tvm_iree_ext.codegen.gpu.passes.amd_branches import part_branches


@T.prim_func(s_tir=True)
def kernel(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32"), first: T.int32):
    if first < 4:
        x[0] = 1.0
    else:
        y[0] = 1.0
    if first < 4:
        x[1] = 2.0
    else:
        y[1] = 2.0
    if x[2] < 4.0:
        x[2] = 3.0
    else:
        y[2] = 3.0
    if x[2] < 4.0:
        x[3] = 4.0
    else:
        y[3] = 4.0


def test_branches_on_what_nothing_changes_are_one():
    module = part_branches(tvm.IRModule({"main": kernel}))
    joined, *apart = module["main"].body.seq
    assert all(isinstance(branch, tirx.IfThenElse) for branch in (joined, *apart))
    then = joined.then_case.seq
    assert [list(store.indices) for store in then[:2]] == [[0], [1]]
    assert "llvm.amdgcn.sched.barrier" in str(then[2])
    assert len(joined.else_case.seq) == 2
    assert len(apart) == 2
    assert all(isinstance(branch.then_case, tirx.BufferStore) for branch in apart)


@T.prim_func(s_tir=True)
def tickets(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    if T.call_extern("int32", "take_ticket") < 4:
        x[0] = 1.0
    else:
        y[0] = 1.0
    if T.call_extern("int32", "take_ticket") < 4:
        x[1] = 2.0
    else:
        y[1] = 2.0


def test_conditions_that_do_something_are_asked_each_time():
    module = part_branches(tvm.IRModule({"main": tickets}))
    assert str(module["main"].body).count("take_ticket") == 2
