"""Run the notebooks of docs/notebooks, and write what their cells show into them.

.venv/bin/python scripts/notebooks.py        after a change of what is shown, and look at it

No Jupyter is needed: code cells run in order in this process, and the last expression of each is
shown as its own methods say.
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parent.parent / "docs" / "notebooks"
_RICH = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}


def run(path: Path) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each code cell of a notebook, and its outputs as the format has them."""
    notebook = json.loads(path.read_text("utf-8"))
    names: dict[str, Any] = {"__name__": path.stem}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            yield cell, _outputs("".join(cell["source"]), names)


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    body = ast.parse(source).body
    last = body[-1] if isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body[: len(body) - bool(last)], []), "<cell>", "exec"), names)
        value = last and eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
    if value is not None:
        outputs.append({"data": shown(value), "metadata": {}, "output_type": "execute_result"})
    return outputs


def shown(value: Any) -> dict[str, list[str]]:
    """A value by MIME type, as a notebook has it."""
    data = {"text/plain": _lines(repr(value))}
    for kind, method in _RICH.items():
        if (found := getattr(value, method, lambda: None)()) is not None:
            data[kind] = _lines(found)
    return data


def _lines(text: str) -> list[str]:
    return str(text).splitlines(keepends=True)


def write(path: Path) -> None:
    """Put the outputs into a notebook."""
    notebook = json.loads(path.read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, (cell, (_, outputs)) in enumerate(zip(cells, run(path), strict=True), 1):
        numbers = {"execution_count": count}
        cell["outputs"] = [
            one | (numbers if one["output_type"] == "execute_result" else {}) for one in outputs
        ]
        cell["execution_count"] = count
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


if __name__ == "__main__":
    chosen = [Path(one).resolve() for one in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb"))
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        os.environ |= {"TVM_IREE_EXT_CACHE": f"{place}/cache", "TVM_IREE_EXT_RECORDS": os.devnull}
        for one in chosen:
            write(one)
