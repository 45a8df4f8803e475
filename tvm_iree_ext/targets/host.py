"""This machine's CPU as a target, and whether it runs what is built for another."""

import os
from typing import Any

from tvm.target import Target
from tvm.target import codegen as llvm

from tvm_iree_ext.runtime import machine

# Of this a processor's name alone decides: half precision would change which instructions round.
_BY_NAME = frozenset({"avx512fp16"})


def vector_extensions(target: Target) -> list[str]:
    """The vector extensions that an LLVM target has, by LLVM's names."""
    features = set(map(str, llvm.llvm_get_cpu_features(target)))
    return [feature for feature in machine.CPU_FEATURES if feature in features]


def host() -> Target:
    """This machine's CPU and the processors of this process.

    A hypervisor may hide features, and the model, by which LLVM names a CPU: what that name has and
    the processor lacks is switched off, and what the processor has beyond its name is switched on.
    """
    data: dict[str, Any] = {
        "kind": "llvm",
        "mcpu": str(llvm.llvm_get_system_cpu()),
        "num-cores": len(os.sched_getaffinity(0)),
    }
    named = vector_extensions(Target(data))
    hidden = [f"-{feature}" for feature in machine.lacking(named)]
    unnamed = [f"+{feature}" for feature in machine.present() if feature not in {*named, *_BY_NAME}]
    return Target(data | {"mattr": hidden + unnamed} if hidden or unnamed else data)


def obstacle(target: Target) -> str:
    """Why kernels for an LLVM target do not run here, for a message; empty when they do."""
    triple = str(target.attrs.get("mtriple", ""))
    if not machine.is_this_machine(triple):
        return f"target {triple}: its kernels do not run on this {machine.this_machine()} machine"
    if missing := machine.lacking(vector_extensions(target)):
        cpu = target.attrs.get("mcpu")
        return f"target {cpu}: its kernels use {', '.join(missing)}, {machine.why_lacking(missing)}"
    return ""
