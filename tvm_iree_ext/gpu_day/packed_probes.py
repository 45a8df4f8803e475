"""What a chip reaches at most, as it is packed: kernels of products alone, and a copy."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.codegen.gpu.cuda import assemble
from tvm_iree_ext.gpu_day.packed_checks import Packed
from tvm_iree_ext.gpu_day.probe_ptx import probes
from tvm_iree_ext.on_gpu.peak_run import COPY
from tvm_iree_ext.targets.names import make_target, target_json

_OPERATIONS = 5e9  # of a workgroup: a tensor core's in 1 ms and more
_COPIED = 1 << 30  # bytes, of which no cache holds much


@dataclass(frozen=True)
class ProbeTask:
    """A probe to be packed; ``dtype`` is that of the operands, or ``copy``."""

    dtype: str
    target: str
    folder: str

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"peak {self.dtype}"


def probe_tasks(targets: Sequence[str], place: Path) -> Iterator[ProbeTask]:
    """A task for each probe of each target: all of NVIDIA's chips from sm_80 on have kernels."""
    count = 0
    for name in targets:
        target = make_target(name)
        names = [COPY]
        if target.kind.name == "cuda" and _number(str(target.attrs["arch"])) >= 80:
            names += probes(str(target.attrs["arch"]))
        for dtype in names:
            yield ProbeTask(dtype, name, str(place / f"{count:04}"))
            count += 1


def packed_probe(task: ProbeTask) -> Packed:
    """Pack a probe."""
    target, folder = make_target(task.target), Path(task.folder)
    described: dict[str, Any] = {"id": task.dtype, "target": task.target, "config": ""}
    folder.mkdir(parents=True)
    if task.dtype == COPY:
        described |= {"bytes": _COPIED}
    else:
        arch = str(target.attrs["arch"])
        probe = probes(arch)[task.dtype]
        try:
            binary = assemble(probe.ptx, arch).cubin
        except ExtError as error:
            folder.rmdir()
            return Packed(task.name, 0, str(error))
        (folder / "kernel.cubin").write_bytes(binary)
        manifest = {"target": target_json(target), "launch": _plan(probe.lanes, probe.workgroups)}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        described |= {
            "lanes": probe.lanes,
            "workgroups": probe.workgroups,
            "operations": probe.operations,
            "rounds": max(1, round(_OPERATIONS / probe.workgroups / probe.operations)),
        }
    (folder / "case.json").write_text(json.dumps(described))
    return Packed(task.name, 1)


def _plan(lanes: int, workgroups: int) -> dict[str, Any]:
    """The launch: as many workgroups as all cores run at once."""
    return {
        "parameters": [
            {"name": "result", "dtype": "uint32", "shape": ["words"]},
            {"name": "rounds", "dtype": "int32"},
            {"name": "cores", "dtype": "int32"},
        ],
        "symbols": ["words"],
        "steps": [
            {
                "launch": "probe",
                "grid": [f"cores * {workgroups}", 1, 1],
                "block": [lanes, 1, 1],
                "shared": 0,
                "arguments": [{"array": "result"}, {"value": "rounds", "dtype": "int32"}],
            }
        ],
    }


def _number(arch: str) -> int:
    return int(arch.removeprefix("sm_").rstrip("a"))
