"""The lowering config: the numbers and choices that a schedule rule takes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.suggestions import did_you_mean

_JSON_NAMES = {
    bool: "true or false",
    dict: "an object",
    int: "a number",
    list: "a list",
    str: "a text",
}

# What nothing is written for: a config that is read may hold any number, and would be unrolled.
_MOST = {"vector_lanes": 256, "register_tile": 1 << 12, "stages": 64}
_MOST_OF_ALL = 1 << 31


@dataclass(frozen=True)
class LoweringConfig:
    """Tile sizes and choices; plain values, so that it can be printed, compared and recorded.

    Attributes:
        algorithm: which form of the rule, where it has several.
        workgroup_tile: extents per role of an iteration dim that one task computes.
        reduction_tile: extents per role of a reduction dim that are in fast memory at once.
        register_tile: how many accumulators a micro-kernel holds, per role (rows, vectors).
        vector_lanes: elements of a vector instruction.
        promote: operands that are copied to a scratch tile before use.
        pad: operands that are first copied to rows of whole accesses, by a kernel of its own.
        splits: how many tasks share one reduction; their partial results are merged.
        workgroups: on a GPU, how many share all tiles and the steps of the last ones (stream-K);
            0 where each has one tile, or one of ``splits`` parts of it.  Of lines whose extents the
            call tells: how many share them.
        parallel: whether tasks go to the thread pool.
        mma_kind: on a GPU the matrix instruction, by IREE's name for it.
        subgroups: how many subgroups of a workgroup share each role.
        stages: tiles that are under way at once; 1 copies, waits and computes in turn.
        column_major: whether lanes hold runs of the result's rows: A and B exchanged in the
            instruction.
        swizzle: whether rows in shared memory may be permuted; else they are padded alone.
        streaming: whether results are stored non-temporally on a CPU.
    """

    algorithm: str = ""
    workgroup_tile: Mapping[str, int] = field(default_factory=dict)
    reduction_tile: Mapping[str, int] = field(default_factory=dict)
    register_tile: Mapping[str, int] = field(default_factory=dict)
    vector_lanes: int = 1
    promote: tuple[str, ...] = ()
    pad: tuple[str, ...] = ()
    splits: int = 1
    workgroups: int = 0
    parallel: bool = True
    mma_kind: str = ""
    subgroups: Mapping[str, int] = field(default_factory=dict)
    stages: int = 1
    column_major: bool = False
    swizzle: bool = True
    streaming: bool = False

    def value(self, key: str) -> Any:
        """That of a field, or of a role as in ``workgroup_tile.m``; None for one not there."""
        name, _, role = key.partition(".")
        value = getattr(self, name)
        return value.get(role) if role else value

    def with_value(self, key: str, value: object) -> "LoweringConfig":
        """The config with another value of a field or role."""
        name, _, role = key.partition(".")
        changed: Any = {**getattr(self, name), role: value} if role else value
        return replace(self, **{name: changed})

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        data = asdict(self)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in data.items()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "LoweringConfig":
        """The inverse of :meth:`to_json`.

        Raises:
            ScheduleError: for a field that a lowering config does not have, a value of another
                type than the field's, or a number that nothing is written for.
        """
        usual = LoweringConfig().to_json()
        if unknown := sorted(map(str, set(data) - set(usual))):
            raise ScheduleError(
                f"lowering config: unknown field {', '.join(unknown)};"
                f" known are {', '.join(sorted(usual))}{did_you_mean(unknown[0], usual)}"
            )
        for name, value in data.items():
            if type(value) is not type(usual[name]):
                expected = _JSON_NAMES[type(usual[name])]
                raise ScheduleError(f"lowering config: {name} is {value!r}; expected {expected}")
            inside = value.values() if isinstance(value, Mapping) else ()
            if any(type(one) is not int for one in inside):
                raise ScheduleError(f"lowering config: {name} is {value!r}; expected numbers in it")
            most = _MOST.get(name, _MOST_OF_ALL)
            if any(not 0 <= one <= most for one in (*inside, *([value] * isinstance(value, int)))):
                raise ScheduleError(f"lowering config: {name} is {value!r}; expected 0 to {most}")
            if isinstance(value, list) and not all(isinstance(one, str) for one in value):
                raise ScheduleError(f"lowering config: {name} is {value!r}; expected texts in it")
        names = {key: tuple(data.get(key, ())) for key in ("promote", "pad")}
        return LoweringConfig(**{**data, **names})


ConfigLike: TypeAlias = LoweringConfig | Mapping[str, Any]
"""What is taken for a config: one, or its fields as plain JSON."""


def changed_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config, as plain JSON, that are not the usual ones: what a reader wants."""
    usual = LoweringConfig().to_json()
    return {name: value for name, value in config.items() if value != usual.get(name)}
