"""A program as a Python file that can be run where this package is installed."""

from tvm_iree_ext.random_programs.doors.door import Door
from tvm_iree_ext.random_programs.drawing.oracle import expected
from tvm_iree_ext.random_programs.drawing.web import Input, Web

_MOST = 64  # elements that are written out


def script(web: Web, door: Door, target: str, *, simulate: bool) -> str:
    """The file: it builds the program, and prints what it gives and what it must give."""
    arrays = ",\n    ".join(map(_array, web.inputs))
    lines = ["import numpy as np", "", "import tvm_iree_ext as ext"]
    if any(one.type.dtype == "bfloat16" for one in web.inputs):
        lines.insert(1, "from ml_dtypes import bfloat16")
    if any(one.type.size > _MOST for one in web.inputs):
        lines.append("from tvm_iree_ext.random_programs.drawing.web import Input, Type")
    if door.imports:
        lines.append(door.imports)
    if simulate:
        lines.append("from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program")
    lines += ["", door.written(door.text(web)), f"arrays = [\n    {arrays},\n]"]
    lines.append(f"imported = {door.call}")
    if simulate:
        lines.append(f"done = simulate_program(imported, {target!r}, arrays).check()")
        lines.append("print(*done.results, sep='\\n')")
    else:
        lines.append(f"print(ext.build_program(imported, {target!r})(*arrays))")
    for place, value in enumerate(expected(web)):
        text = str(value.data.tolist()) if value.data.size <= _MOST else "too long to be shown"
        lines.append(f"# result {place} must be {text}")
    return "\n".join(lines) + "\n"


def _array(one: Input) -> str:
    if one.type.size > _MOST:
        return f"{one!r}.array()"
    array, dtype = one.array(), one.type.dtype
    values = array.astype("float64") if one.type.is_float else array
    shape = f".reshape({one.type.shape})" if 0 in one.type.shape else ""
    name = "bfloat16" if dtype == "bfloat16" else repr(dtype)
    return f"np.array({values.tolist()}).astype({name}){shape}"
