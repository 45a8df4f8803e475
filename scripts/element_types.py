"""Write the tables of docs/types.md: which element types each op takes, and why not others.

.venv/bin/python scripts/element_types.py        after a change of catalog/element_types.py
"""

from pathlib import Path
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.registry import ENTRIES, element_types

PAGE = Path(__file__).resolve().parent.parent / "docs" / "types.md"
BEGIN, END = "<!-- the tables: scripts/element_types.py -->", "<!-- end of the tables -->"
GROUPS = {
    "i1": ("bool",),
    "i8 to i64, ui8 to ui64, index": tuple(one for one in dtypes.INTEGERS if one != "bool"),
    "i4, ui4": dtypes.INTEGERS4,
    "f16, bf16, f32, f64": dtypes.FLOATS,
    "f8E4M3FN, f8E5M2": ("float8_e4m3fn", "float8_e5m2"),
    "f8E4M3FNUZ, f8E5M2FNUZ": ("float8_e4m3fnuz", "float8_e5m2fnuz"),
    "complex<f32>": ("complex64",),
    "complex<f64>": ("complex128",),
}


class _Notes:
    """Reasons, numbered as they come."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, reason: str) -> str:
        """The number of a reason."""
        if reason not in self.texts:
            self.texts.append(reason)
        return f"[{self.texts.index(reason) + 1}]"


def _cell(kinds: Any, group: tuple[str, ...], notes: _Notes, *, in_text: bool) -> str:
    """What stands for a group of types: where they run, or why they are not taken."""
    refused = kinds.refused_in_text if in_text else kinds.refused
    if in_text and "int64" in group:
        group = (*group, "index")
    taken = [one for one in group if one not in refused]
    if not taken:
        return "no " + " ".join(dict.fromkeys(notes.mark(refused[one]) for one in group))
    places = []
    for place in ("CPU", "CUDA", "ROCm"):
        foreign = kinds.foreign.get(place.lower(), {})
        reasons = {notes.mark(foreign[one]) for one in taken if one in foreign}
        places.append(f"not {place} {' '.join(sorted(reasons))}" if reasons else "")
    where = ", ".join(filter(None, places)) or "yes"
    if len(taken) == len(group):
        return where
    gone = [one for one in group if one in refused]
    why = " ".join(dict.fromkeys(notes.mark(refused[one]) for one in gone))
    if len(gone) < len(taken):
        return f"{where}; {_names(gone)} no {why}"
    return f"{_names(taken)}; others no {why}"


def _names(kinds: list[str]) -> str:
    """Types as MLIR calls them."""
    return ", ".join(one if one == "index" else dtypes.mlir_name(one) for one in kinds)


def tables() -> str:
    """The tables, of Python and of IR, and the reasons."""
    notes = _Notes()
    lines: list[str] = []
    doors = {"Python": False, "IR, and the dialects' own texts": True}
    for door, in_text in doors.items():
        lines += [f"### {door}", "", "| op | " + " | ".join(GROUPS) + " |"]
        lines.append("| --- " * (1 + len(GROUPS)) + "|")
        for name in ENTRIES:
            if in_text and name.startswith("tvm_iree_ext."):
                continue
            kinds = element_types(name)
            cells = [_cell(kinds, one, notes, in_text=in_text) for one in GROUPS.values()]
            lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
        lines.append("")
    lines += [f"- [{number}] {text}" for number, text in enumerate(notes.texts, 1)]
    return "\n".join(lines)


def with_tables(page: str) -> str:
    """The page with the tables as they are now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
