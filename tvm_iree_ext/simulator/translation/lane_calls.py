"""Calls about the lanes of a workgroup: barriers, shuffles, votes."""

from functools import partial
from typing import Any

import numpy as np
from tvm.target import codegen as llvm

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.translation.lane_expressions import Expressions, dtype_of
from tvm_iree_ext.simulator.translation.python_source import Code
from tvm_iree_ext.simulator.translation.value_calls import (
    HANDLERS,
    NOTHING,
    Handler,
    extern,
    handles,
    intrinsic,
    tokens_of,
)


def barrier(tr: Expressions, kind: str) -> Code:
    """A barrier of the workgroup or of each subgroup."""
    tr.emitter.line(f"rt.{kind}({tr.mask}, {tr.statement})")
    return NOTHING


@handles("tvm_storage_sync")
def _storage_sync(tr: Expressions, node: Any) -> Code:
    scope = str(node.args[0].value)
    return barrier(tr, "subgroup_barrier" if scope == "warp" else "barrier")


@handles("cuda.cta_sync", "ptx.bar_sync", "ptx.barrier_sync", "ptx.barrier_cta_sync")
def _cta_sync(tr: Expressions, node: Any) -> Code:
    operands, _ = tokens_of(node) if node.args else ([], [])
    if len(operands) > 1:
        raise SimulationError(f"the simulator does not know barriers of some lanes only: {node}")
    return barrier(tr, "barrier")


@handles("cuda.warp_sync", "ptx.bar_warp_sync")
def _warp_sync(tr: Expressions, node: Any) -> Code:
    return barrier(tr, "subgroup_barrier")


@extern("tvm_iree_ext_barrier")
@intrinsic("amdgcn.s.barrier")
def _s_barrier(tr: Expressions, node: Any) -> Code:
    return barrier(tr, "barrier")


@extern("tvm_iree_ext_use_")
def _use(tr: Expressions, node: Any) -> Code:
    return NOTHING


@extern("tvm_iree_ext_count_")
def _count(tr: Expressions, node: Any) -> Code:
    return tr(node.args[0])


@intrinsic("amdgcn.wave.barrier")
def _wave_barrier(tr: Expressions, node: Any) -> Code:
    return barrier(tr, "subgroup_barrier")


@handles(
    "cuda.thread_fence", "ptx.fence", "ptx.setmaxnreg*", "cuda.nano_sleep", "ptx.griddepcontrol*"
)
def _no_effect(tr: Expressions, node: Any) -> Code:
    return NOTHING


@intrinsic("amdgcn.s.waitcnt", "amdgcn.sched.*", "amdgcn.s.setprio", "amdgcn.iglp.opt",
           "amdgcn.s.sleep", "assume")  # fmt: skip
def _no_effect_either(tr: Expressions, node: Any) -> Code:
    return NOTHING


# Lanes of a subgroup.


def shuffle(tr: Expressions, kind: str, value: Any, by: Any, width: int, named: Any | None) -> Code:
    """A value of another lane."""
    number, source = tr(value), tr(by)
    if named is not None:
        tr.emitter.line(f"rt.check_named({tr(named).text}, {tr.mask}, {tr.statement}, 'a shuffle')")
    text = (
        f"rt.shuffle({kind!r}, {tr.scalar(number, dtype_of(value))}, {source.text}, {width},"
        f" {tr.mask}, {tr.statement})"
    )
    return tr.emitter.here(text, False)


_KINDS = {"": "idx", "_up": "up", "_down": "down", "_xor": "xor"}


def _shuffled_by_cuda(tr: Expressions, name: str, args: list[Any]) -> Code:
    kind = _KINDS[name.removeprefix("__shfl").removesuffix("_sync")]
    width = int(args[3].value) if len(args) > 3 else tr.subgroup_size
    return shuffle(tr, kind, args[1], args[2], width, args[0])


def _cuda_shuffle(name: str) -> Handler:
    return lambda tr, node: _shuffled_by_cuda(tr, name, list(node.args))


def _tvm_shuffle(kind: str, tr: Expressions, node: Any) -> Code:
    _, value, by, width, _ = node.args
    return shuffle(tr, kind, value, by, int(width.value), None)


for _suffix, _kind in _KINDS.items():
    HANDLERS[f"cuda.__shfl{_suffix}_sync"] = _cuda_shuffle(f"__shfl{_suffix}_sync")
    HANDLERS[f"tvm_warp_shuffle{_suffix}"] = partial(_tvm_shuffle, _kind)


@handles("cuda.elect_sync")
def _elected(tr: Expressions, node: Any) -> Code:
    return tr.emitter.here(f"rt.elected({tr.mask}, {tr.statement})", False)


@handles("cuda.__activemask", "tvm_warp_activemask")
def _activemask(tr: Expressions, node: Any) -> Code:
    text = f"rt.active_lanes({tr.mask}, {tr.statement})"
    return tr.emitter.here(f"cast({text}, {tr.dtype(element_type(dtype_of(node)))})", False)


def _vote(kind: str, dtype: str, tr: Expressions, node: Any) -> Code:
    named, condition = node.args
    value = tr(condition)
    tr.emitter.line(f"rt.check_named({tr(named).text}, {tr.mask}, {tr.statement}, 'a vote')")
    text = f"rt.vote({kind!r}, {value.text}, {tr.mask}, {tr.statement})"
    return tr.emitter.here(f"cast({text}, {tr.dtype(np.dtype(dtype))})", False)


HANDLERS |= {
    "cuda.ballot_sync": partial(_vote, "ballot", "uint32"),
    "cuda.any_sync": partial(_vote, "any", "int32"),
    "cuda.all_sync": partial(_vote, "all", "int32"),
}


@intrinsic("amdgcn.ballot*")
def _amd_ballot(tr: Expressions, node: Any) -> Code:
    value = tr(node.args[1])
    text = f"rt.vote('ballot', {value.text}, {tr.mask}, {tr.statement})"
    return tr.emitter.here(f"cast({text}, {tr.dtype(element_type(dtype_of(node)))})", False)


@intrinsic("amdgcn.ds.bpermute")
def _bpermute(tr: Expressions, node: Any) -> Code:
    address, value = tr(node.args[1]), tr(node.args[2])
    source = tr.compose(f"({address.text} >> 2) % {tr.subgroup_size}", address)
    text = (
        f"rt.shuffle('idx', {tr.scalar(value, dtype_of(node.args[2]))}, {source.text},"
        f" {tr.subgroup_size}, {tr.mask}, {tr.statement})"
    )
    return tr.emitter.here(text, False)


@intrinsic("amdgcn.readlane*", "amdgcn.readfirstlane*")
def _readlane(tr: Expressions, node: Any) -> Code:
    value = tr(node.args[1])
    named = len(node.args) > 2
    kind, source = (
        ("idx", tr(node.args[2]).text) if named else ("first", f"rt.first_lanes({tr.mask})")
    )
    text = (
        f"rt.shuffle({kind!r}, {tr.scalar(value, dtype_of(node.args[1]))}, {source},"
        f" {tr.subgroup_size}, {tr.mask}, {tr.statement})"
    )
    return tr.emitter.here(text, False)


@intrinsic("amdgcn.mbcnt.lo", "amdgcn.mbcnt.hi")
def _mbcnt(tr: Expressions, node: Any) -> Code:
    low = str(llvm.llvm_get_intrinsic_name(int(node.args[0].value))).endswith("lo")
    mask, base = tr(node.args[1]), tr(node.args[2])
    return tr.emitter.here(
        f"rt.lanes_before({tr.scalar(mask, 'int32')}, {base.text}, {low})", False
    )
