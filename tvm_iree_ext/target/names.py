"""Targets by name: what a user writes, as TVM's target.

llvm                                 this machine's CPU
llvm:znver4                          another x86-64 CPU, by LLVM's name
llvm:neoverse-n1@aarch64-linux-gnu   a CPU of another architecture
{"kind": "llvm", ...}                TVM's own form, as a dictionary or JSON
"""

import json
import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from tvm.target import Target
from tvm.target import codegen as llvm

from tvm_iree_ext.errors import TargetError
from tvm_iree_ext.machine import CPU_FEATURES, cpu_flags

TargetLike: TypeAlias = str | Mapping[str, Any] | Target

KINDS = ("llvm",)
"""The kinds that ops can be built for."""


def make_target(target: TargetLike) -> Target:
    """TVM's target for a name, a dictionary, or a target.

    Raises:
        TargetError: for an unknown kind or CPU, saying which are known.
    """
    if isinstance(target, Target):
        made = target
    elif isinstance(target, Mapping):
        made = _from_json(dict(target))
    elif target.lstrip().startswith("{"):
        try:
            made = _from_json(json.loads(target))
        except json.JSONDecodeError as error:
            raise TargetError(f"target {target!r} is not JSON: {error}") from None
    else:
        made = _from_name(target)
    if made.kind.name not in KINDS:
        raise TargetError(f"target kind {made.kind.name!r}: supported are {', '.join(KINDS)}")
    return made


def _from_json(data: dict[str, Any]) -> Target:
    try:
        return Target(data)
    except (RuntimeError, ValueError, TypeError) as error:  # TVM raises any of these
        raise TargetError(f"target {data}: {error}") from None


def _from_name(name: str) -> Target:
    kind, _, rest = name.partition(":")
    if kind not in KINDS:
        raise TargetError(f"target {name!r}: kind is {kind!r}; supported are {', '.join(KINDS)}")
    if not rest:
        return host()
    cpu, _, triple = rest.partition("@")
    data: dict[str, Any] = {"kind": "llvm", "mcpu": cpu}
    if triple:
        data["mtriple"] = triple
    target = _from_json({key: value for key, value in data.items() if key != "mcpu"})
    if cpu not in (known := list(llvm.llvm_get_cpu_archlist(target))):
        where = f" for {triple}" if triple else ""
        raise TargetError(f"target {name!r}: LLVM knows no CPU {cpu!r}{where}; {_some(cpu, known)}")
    return _from_json(data)


def _some(cpu: str, known: list[str]) -> str:
    near = [name for name in known if name[:3] == cpu[:3]] or known
    return f"it knows {', '.join(map(str, near[:12]))}{', ...' if len(near) > 12 else ''}"


def host() -> Target:
    """This machine's CPU, less what its hypervisor hides, and the processors of this process."""
    data: dict[str, Any] = {
        "kind": "llvm",
        "mcpu": str(llvm.llvm_get_system_cpu()),
        "num-cores": len(os.sched_getaffinity(0)),
    }
    features = set(map(str, llvm.llvm_get_cpu_features(Target(data))))
    flags = cpu_flags()
    hidden = [f for f in CPU_FEATURES if flags and f in features and f not in flags]
    if hidden:
        data["mattr"] = [f"-{feature}" for feature in hidden]
    return Target(data)


def target_json(target: Target) -> dict[str, Any]:
    """The target as plain JSON: for a manifest, and for a cache key."""
    return {key: value for key, value in json.loads(str(target)).items() if value not in ("", [])}
