"""The MMA table: every kind by name, and those that a chip has."""

import functools
import json
from importlib.resources import files

from tvm.target import Target

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size
from tvm_iree_ext.targets.mma.fma_kinds import fma_kind
from tvm_iree_ext.targets.mma.mma_kinds import Kind, Mma, read_row
from tvm_iree_ext.targets.mma.mma_table_checks import check_laws
from tvm_iree_ext.targets.mma.scaled_kinds import SCALE_FORMATS, formats_of, takes, with_formats


@functools.cache
def mma_table() -> dict[str, Mma]:
    """Every kind by name, each checked against the laws.

    Raises:
        TargetError: where a row breaks one.
    """
    text = files("tvm_iree_ext.targets.mma").joinpath("mma_table.json").read_text()
    rows = [read_row(row) for row in json.loads(text)["intrinsics"]]
    table = {row.name: row for row in rows}
    for row in rows:
        check_laws(row, table)
    return table


def mma_kind(name: str) -> Mma:
    """The kind of a name: of the table, of other formats with scales (:mod:`.scaled_kinds`), or of
    a lane's multiply-adds (:mod:`.fma_kinds`).

    Raises:
        TargetError: for an unknown name, with those alike.
    """
    if str(name).startswith("FMA_"):
        return fma_kind(name)
    table = mma_table()
    if (found := formats_of(str(name))) and found[0] in table and table[found[0]].lhs_scale:
        return _scaled_kind(*found)
    if name not in table:
        alike = [known for known in table if known.split("_")[0] == str(name).split("_")[0]]
        families = dict.fromkeys(f"{known.partition('_')[0]}_..." for known in table)
        hint = did_you_mean(name, table) or f"; known are {', '.join(alike or families)}"
        raise TargetError(f"mma kind {name!r} is unknown{hint}")
    return table[name]


@functools.cache
def _scaled_kind(base: str, a: str, b: str) -> Mma:
    table = mma_table()
    made = with_formats(table[base], a, b)
    check_laws(made, table)
    return made


def scaled_kinds(
    target: Target | str, a: str, b: str, scales: str = "e8m0", kind: Kind = "scaled"
) -> list[Mma]:
    """The instructions of a GPU that multiply blocks of these formats with scales of a type."""
    if a not in SCALE_FORMATS or b not in SCALE_FORMATS:
        return []
    return [
        _scaled_kind(row.name, a, b)
        for row in mma_kinds(target, (kind,))
        if row.operand("lhs_scale").dtype == scales and takes(row, a, b)
    ]


def mma_kinds(target: Target | str, kinds: tuple[Kind, ...] = ("native",)) -> list[Mma]:
    """The kinds that a GPU has, the widest K first and those with several blocks last.

    Args:
        target: a target, or the name of a chip.
        kinds: which kinds of row.

    Raises:
        TargetError: for a chip or target that is unknown.
    """
    chip = gpu_chip(target)
    size = subgroup_size(target) if isinstance(target, Target) else chip.subgroup_size
    found = [
        row
        for row in mma_table().values()
        if row.on(chip.name) and row.kind in kinds and row.subgroup_size == size
    ]
    return sorted(found, key=lambda row: (row.blocks > 1, -row.k))
