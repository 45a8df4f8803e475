"""Programs of the vector form on their way to native vectors, for a target named as elsewhere.

The vector form knows no target; here the table of what targets have meets the patterns.
"""

from collections.abc import Callable, Mapping

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.targets.names import TargetLike, make_target
from tvm_iree_ext.targets.vector_units import vector_unit
from tvm_iree_ext.vector import article_programs
from tvm_iree_ext.vector.programs.vector_program import VectorProgram
from tvm_iree_ext.vector.stages import Stage, stages

PROGRAMS: Mapping[str, Callable[[], VectorProgram]] = {
    "dot": article_programs.dot,
    "conv": article_programs.conv,
}
"""The programs that have a name."""


def vector_stages(
    program: VectorProgram | str, target: TargetLike | None = None, stage: str | None = None
) -> list[Stage]:
    """The stages of a program, from structured ops to native vectors.

    Args:
        program: structured ops on tensors, or "dot" or "conv".
        target: whose vectors and registers shape the tiles; by default registers of 128 bits and
            the tiles of the article.
        stage: only the one of this name.

    Raises:
        CallError: for a program or stage that there is not.
        TargetError: for a target that there is not, or that has no table of vectors.
        VectorError: where a pattern does not apply.
    """
    if isinstance(program, str):
        if program not in PROGRAMS:
            hint = did_you_mean(program, PROGRAMS)
            raise CallError(f"program is {program!r}; expected one of {', '.join(PROGRAMS)}{hint}")
        program = PROGRAMS[program]()
    unit = None if target is None else vector_unit(make_target(target))
    found = list(stages(program, unit))
    if stage is None:
        return found
    if stage not in [one.name for one in found]:
        names = [one.name for one in found]
        hint = did_you_mean(stage, names)
        raise CallError(f"stage is {stage!r}; expected one of {', '.join(names)}{hint}")
    return [one for one in found if one.name == stage]
