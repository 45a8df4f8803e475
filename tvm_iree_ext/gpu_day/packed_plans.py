"""Launch plans that are packed: those that the machine with the GPU can follow, and time."""

import json
import shutil
from pathlib import Path

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.runtime.launch.launcher import plan_of
from tvm_iree_ext.runtime.launch.plan_steps import is_prepared


def check_plan(folder: Path, name: str, *, timed: bool = False) -> None:
    """Refuse an artifact whose plan is not followed there, and remove it.

    Args:
        folder: of the artifact.
        name: of the case, for the message.
        timed: whether its launches are recorded, to be timed without the host.

    Raises:
        BuildError: where the host allocates results in the call, whose extents kernels compute; and
            of what is timed, where the host decides between launches.
    """
    plan, problem = plan_of(json.loads((folder / "manifest.json").read_text())), ""
    if count := len(plan.get("results", ())):
        problem = (
            f"the extents of {count} of its results are computed in the call; others are packed"
        )
    elif timed and not is_prepared(plan["steps"]):
        problem = (
            "what is launched hangs on numbers that kernels compute; times are of launches that a"
            " call's arguments say"
        )
    if problem:
        shutil.rmtree(folder)
        raise BuildError(f"{name}: {problem}")
