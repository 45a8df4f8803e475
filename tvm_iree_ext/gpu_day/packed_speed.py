"""Kernels to be timed, as they are packed: an artifact, and how its operands are filled."""

import dataclasses
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.errors import ExtError, ScheduleError
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.gpu_day.packed_checks import Packed, keep_loaded
from tvm_iree_ext.gpu_day.packed_plans import check_plan
from tvm_iree_ext.gpu_day.speed_cases import CASES
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.names import make_target

_HEURISTIC = ""  # the name of the config that the rule takes


@dataclass(frozen=True)
class SpeedTask:
    """A kernel to be packed; ``config`` names one of the case's other configs."""

    name: str
    target: str
    folder: str
    config: str = _HEURISTIC


def speed_tasks(wanted: Sequence[tuple[str, str]], place: Path) -> Iterator[SpeedTask]:
    """A task for each config of each case; ``wanted`` are targets and names of cases."""
    count = 0
    for target, name in wanted:
        for config in (_HEURISTIC, *CASES[name].configs):
            yield SpeedTask(name, target, str(place / f"{count:04}"), config)
            count += 1


def packed_speed(task: SpeedTask) -> Packed:
    """Pack a kernel."""
    case, target = CASES[task.name], make_target(task.target)
    title = f"{task.name} {task.config}".strip()
    op, folder = case.make(), Path(task.folder)
    try:
        rule = choose(op, target)
        config = rule.heuristic(op, target)
        if task.config:
            config = dataclasses.replace(config, **case.configs[task.config])
        build(op, target, config, folder=folder)
        check_plan(folder, title, timed=True)
    except ScheduleError as error:
        return Packed(title, 0, str(error), unsupported=True)
    except ExtError as error:
        return Packed(title, 0, str(error))
    keep_loaded(folder)
    operands = [
        {
            "name": operand.name,
            "dtype": operand.dtype,
            "shape": operand.shape,
            "fill": case.fills.get(operand.name, "normal"),
        }
        for operand in op.signature.arguments
    ]
    results = [
        {"name": operand.name, "dtype": operand.dtype, "shape": operand.shape}
        for operand in op.signature.results
    ]
    described: dict[str, Any] = {
        "id": task.name,
        "config": task.config,
        "target": task.target,
        "op": op.name,
        "operands": operands,
        "results": results,
        "operations": op.flops(),
        "bytes": op.bytes(),
        "peer": case.peer,
        "settings": case.settings,
        "lowering_config": config.to_json(),
    }
    try:
        text = json.dumps(described)
    except TypeError as error:
        shutil.rmtree(folder)
        return Packed(title, 0, f"{type(error).__name__}: {error}")
    (folder / "case.json").write_text(text)
    return Packed(title, 1)
