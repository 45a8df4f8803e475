"""Compilers' output for a GPU kernel, for a reader: registers, memory, instructions.

Names of kernels are those of :mod:`.simulated_ops`: ``mma:KIND`` and ``FILE.py:NAME``.  Of an op
the kernels are those of the rule that builds it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tvm import tirx

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.codegen.gpu.device_code import DeviceCode, compile_device
from tvm_iree_ext.codegen.gpu.instruction_counts import InstructionCounts
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.records.record_choice import lowered
from tvm_iree_ext.simulator.runs.simulated_ops import default_target, named_kernel
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.names import TargetLike, make_target

_PLAIN = ("vector", "scalar", "shuffles", "barriers", "waits", "scratch", "control")


def inspect_kernel(kernel: str | tirx.PrimFunc, target: TargetLike | None = None) -> DeviceCode:
    """Compile a kernel as far as the tools at hand go.

    Args:
        kernel: a name, or a function with thread bindings.
        target: such as ``cuda:sm_80``; for a matrix instruction by default a chip that has it.

    Raises:
        SimulationError: for a name that stands for no kernel.
        BuildError: where a compiler refuses.
    """
    function = named_kernel(kernel) if isinstance(kernel, str) else kernel
    if target is None:
        if not (isinstance(kernel, str) and kernel.startswith("mma:")):
            raise SimulationError("a kernel needs a target, such as cuda:sm_80 or rocm:gfx942")
        target = default_target(kernel)
    return compile_device(function, make_target(target))


def inspect_op(op: Op, target: TargetLike, config: LoweringConfig | None = None) -> DeviceCode:
    """Compile the kernels of an op as far as the tools at hand go.

    Args:
        op: what :mod:`tvm_iree_ext.ops` makes.
        target: a GPU, such as ``cuda:sm_80``.
        config: by default that of the records of tuning, else the rule's heuristic.

    Raises:
        TargetError: for a target that is no GPU.
        ScheduleError: when no rule builds the op, or the config does not fit.
        BuildError: where a compiler refuses.
    """
    resolved = make_target(target)
    gpu_chip(resolved)
    module, provenance = lowered(op, resolved, config)
    return dataclasses.replace(compile_device(module, resolved), provenance=provenance)


def report_data(code: DeviceCode) -> dict[str, Any]:
    """The report as plain data."""
    kernels = {}
    for name, launch in code.launches.items():
        resources, counted = code.resources.get(name), code.instructions(name)
        parts = {"kernel": counted.whole, "hot_loop": counted.hot_loop} if counted else {}
        kernels[name] = {
            "launch": {**launch.extents, **dict.fromkeys(launch.dynamic, "of the arguments")},
            "resources": dataclasses.asdict(resources) if resources else None,
            "instructions": {part: _counts(one) for part, one in parts.items() if one},
        }
    chip = str(code.target.attrs.get("arch", code.target.attrs.get("mcpu")))
    return {
        "chip": chip,
        "provenance": code.provenance,
        "kernels": kernels,
        "missing": code.missing,
    }


def _counts(counts: InstructionCounts) -> dict[str, Any]:
    return {
        "total": counts.total,
        "mma": counts.mma,
        "per_mma": round(counts.per_mma, 2),
        "flops_per_instruction": round(counts.flops_per_instruction, 1),
        **{name: getattr(counts, name) for name in _PLAIN},
        "loads": _moves(counts.loads),
        "stores": _moves(counts.stores),
        "copies": {str(width): count for width, count in sorted(counts.copies.items())},
    }


def _moves(moves: Mapping[tuple[str, int], int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (memory, width), count in sorted(moves.items()):
        found.setdefault(memory, {})[str(width)] = count
    return found


def report_text(code: DeviceCode) -> str:
    """The report as text."""
    data = report_data(code)
    lines = [f"config: {code.provenance}"] if code.provenance else []
    for name, kernel in data["kernels"].items():
        launch = ", ".join(f"{tag} {extent}" for tag, extent in kernel["launch"].items())
        lines.append(f"{name} on {data['chip']}: {launch}")
        if used := kernel["resources"]:
            lines += [
                f"  registers {used['registers']} of a lane, {used['scalar_registers']} scalar;"
                f" spills {used['spills']}; scratch {used['scratch_bytes']} B;"
                f" shared memory {used['shared_memory_bytes']} B",
                f"  {used['subgroups_per_simd']:g} subgroups resident on a SIMD, limited by"
                f" {used['limited_by']}",
                *(f"  advice: {line}" for line in used["advice"]),
            ]
        lines += _table(kernel["instructions"])
    if data["missing"]:
        lines.append(data["missing"])
    return "\n".join(lines)


def _table(parts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if not parts:
        return []
    rows: dict[str, list[str]] = {}
    for part in parts.values():
        for label, value in _rows(part):
            rows.setdefault(label, []).append(value)
    labels = {label for part in parts.values() for label, _ in _rows(part)}
    lines = [f"  {'instructions':30}" + "".join(f"{part:>12}" for part in parts)]
    for label in (label for label in rows if label in labels):
        values = [dict(_rows(part)).get(label, "0") for part in parts.values()]
        lines.append(f"  {label:30}" + "".join(f"{value:>12}" for value in values))
    return lines


def _rows(part: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [("mma", str(part["mma"]))]
    for what in ("loads", "stores"):
        for memory, widths in part[what].items():
            rows += [(f"{memory} {what}, {width} B", str(n)) for width, n in widths.items()]
    rows += [(f"asynchronous copies, {width} B", str(n)) for width, n in part["copies"].items()]
    rows += [(name, str(part[name])) for name in _PLAIN]
    rows += [("all", str(part["total"]))]
    if part["mma"]:
        rows += [
            ("for each mma", f"{part['per_mma']:g}"),
            ("FLOP for each", f"{part['flops_per_instruction']:g}"),
        ]
    return rows
