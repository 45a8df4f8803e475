"""Machine code of many functions, in parts that LLVM makes at the same time.

LLVM takes two thirds of the time of compiling a program's kernels, and works on each alone.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.target import Target
from tvm.tirx.build import codegen_build

_PART = 4  # functions: a module of LLVM's takes some 20 ms beside them
_MOST_PARTS = 8


def part_count(mod: ir.IRModule, target: Target) -> int:
    """In how many parts a module's code is made, on any machine: 1 where one is as good."""
    if target.attrs.get("cl-opt"):  # LLVM's options are those of the process
        return 1
    return max(1, min(len(mod.functions) // _PART, _MOST_PARTS))


def write_objects(mod: ir.IRModule, target: Target, pipeline: str, folder: Path) -> list[str]:
    """Compile a module for a CPU into object files; their paths.

    As ``tvm.compile`` does, whose passes see the whole module: the functions' code is the same.
    """
    target = target.with_host(target)
    lower, finalize, _ = tirx.get_tir_pipeline(pipeline)
    lowered = finalize()(lower(tirx.transform.BindTarget(target)(mod)))
    parts = _parts(lowered, part_count(mod, target))
    write = _writer(target, folder)
    with ThreadPoolExecutor(min(len(parts), _cores())) as pool:
        return list(pool.map(write, range(len(parts)), parts))


def _parts(lowered: ir.IRModule, count: int) -> list[ir.IRModule]:
    """At most so many modules: who calls another's function is in one with it."""
    functions = dict(lowered.functions.items())
    by_name = {var.name_hint: var for var in functions}
    group = {var: [var] for var in functions}
    for caller, function in functions.items():
        called: list[ir.GlobalVar] = []
        names: list[ir.StringImm] = []
        walks = ((ir.GlobalVar, called.append), (ir.StringImm, names.append))
        tvm_ffi.structural_walk(function.body, walks)
        called += [by_name[name.value] for name in names if name.value in by_name]
        for callee in called:
            if callee in group and group[callee] is not group[caller]:
                group[caller] += group[callee]
                group.update(dict.fromkeys(group[callee], group[caller]))
    groups = list({id(members): members for members in group.values()}.values())
    dealt = [[*chain(*groups[start::count])] for start in range(count)]
    return [
        ir.IRModule({var: functions[var] for var in members}, attrs=lowered.attrs)
        for members in dealt
        if members
    ]


def _writer(target: Target, folder: Path) -> Callable[[int, Any], str]:
    """A function that writes the code of a part, in any thread with this one's settings."""
    current = tvm.transform.PassContext.current()
    settings = {"opt_level": current.opt_level, "config": dict(current.config)}

    def write(number: int, part: ir.IRModule) -> str:
        path = str(folder / f"part{number}.o")
        with tvm.transform.PassContext(**settings):
            codegen_build(part, target).write_to_file(path)
        return path

    return write


def _cores() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
