"""Attention, from the inputs of PyTorch programs to a library that a fresh interpreter loads.

Builds attention for this machine's CPU, runs programs that PyTorch recorded, compares with what
PyTorch got and with the NumPy reference, times it beside the processor's peak, exports it, loads
it in a fresh interpreter without TVM's compiler, compares bit for bit, and draws a layout.
Ends with status 1 and says which where a comparison fails.
"""

import argparse
import json
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "data" / "ir"
# The layout of IREE's documentation: 64x64 over two subgroups of 64 lanes.
LAYOUT = (
    "#iree_vector_ext.nested_layout<subgroup_tile = [2, 1], batch_tile = [2, 4],"
    " outer_tile = [1, 1], thread_tile = [16, 4], element_tile = [1, 4],"
    " subgroup_strides = [1, 0], thread_strides = [1, 16]>"
)
F16_TOLERANCE = 1e-3  # as far as PyTorch's own result in half precision is from the truth
SPEED_SHAPE = (1, 8, 1024, 64)  # PyTorch's programs are too small to show speed

SHORT = {"float16": "f16", "float32": "f32"}

# What a deployment does: it needs tvm_iree_ext, NumPy and the TVM runtime.
LOAD_AND_RUN = """
import sys
import numpy as np
import tvm_iree_ext as ext

folder, names = sys.argv[1], sys.argv[2:]
for name in names:
    kernel = ext.load(f"{folder}/{name}/kernel")
    inputs = np.load(f"{folder}/{name}/inputs.npz")
    np.save(f"{folder}/{name}/again.npy", kernel(**inputs))
if "tvm" in sys.modules:
    sys.exit("loading a kernel imported the compiler")
"""

console = Console()
STARTED = time.perf_counter()


def step(text: str) -> None:
    seconds = time.perf_counter() - STARTED
    console.print(f"demo: {seconds:3.0f} s  {text}", highlight=False, soft_wrap=True)


@dataclass
class Program:
    """One row: an op, its operands, what PyTorch got, and what became of it here."""

    name: str
    op: Any
    operands: dict[str, np.ndarray]
    recorded: np.ndarray | None = None
    kernel: Any = None
    got: Any = None
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    verdicts: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def judge(self, what: str, want: np.ndarray, allowed: Any) -> None:
        """Compare the result with ``want``; ``allowed`` is an error, or one for each element."""
        error = np.abs(self.got.astype(np.float64) - want.astype(np.float64))
        good = bool(np.all(error <= allowed))
        self.verdicts[what] = f"{np.max(error):.1e}" + ("" if good else " wrong")
        if not good:
            limit = f"{np.max(allowed):.1e}"
            self.failures.append(f"{self.name}: off {what} by {np.max(error):.1e}, not {limit}")


def programs(ext: Any) -> list[Program]:
    found = []
    for entry in json.loads((PROGRAMS / "programs.json").read_text())["programs"]:
        with np.load(PROGRAMS / f"{entry['name']}.npz") as data:
            operands = {name: data[f"in{i}"] for i, name in enumerate(entry["operands"])}
            recorded = data["out0"]
        query, key, value = (operands[name] for name in ("query", "key", "value"))
        mask = operands.get("mask")
        op = ext.ops.attention(query, key, value, mask=mask, **entry["attributes"])
        found.append(Program(entry["name"], op, operands, recorded))
    rng = np.random.default_rng(0)
    operands = {
        name: rng.standard_normal(SPEED_SHAPE, np.float32) for name in ("query", "key", "value")
    }
    found.append(Program("larger", ext.ops.attention(*operands.values()), operands))
    return found


def build_and_compare(ext: Any, program: Program) -> None:
    start = time.perf_counter()
    program.kernel = ext.build(program.op)
    program.build_seconds = time.perf_counter() - start
    program.got = program.kernel(**program.operands)
    entry = ext.registry.find(program.op.name)
    want = entry.reference(program.op, program.operands)["output"]
    tolerance = entry.tolerance(program.op, program.operands, {"output": want})["output"]
    allowed = tolerance.absolute + tolerance.relative * np.abs(want)
    program.judge("the reference", want, allowed)
    if program.recorded is not None:
        is_half = program.got.dtype == np.float16
        program.judge("PyTorch", program.recorded, F16_TOLERANCE if is_half else allowed)


def measure(ext: Any, program: Program) -> None:
    out = np.empty_like(program.got)
    call = partial(program.kernel, **program.operands, out=out)
    contender = ext.bench.Contender(call, nullcontext)
    rounds = ext.bench.take_turns({"kernel": contender}, seconds=0.2, min_rounds=2)["kernel"]
    program.run_seconds = float(np.median([sample for one in rounds for sample in one]))


def export(program: Program, place: Path) -> None:
    folder = place / program.name
    folder.mkdir(parents=True, exist_ok=True)
    program.kernel.export(folder / "kernel")
    np.savez(folder / "inputs.npz", **program.operands)  # type: ignore[arg-type]
    (folder / "again.npy").unlink(missing_ok=True)


def load_and_run_again(all_programs: list[Program], place: Path) -> None:
    names = [program.name for program in all_programs]
    command = [sys.executable, "-c", LOAD_AND_RUN, str(place), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for program in all_programs:
        path = place / program.name / "again.npy"
        again = np.load(path) if path.exists() else np.empty(0)
        same = again.dtype == program.got.dtype and again.tobytes() == program.got.tobytes()
        program.verdicts["loaded"] = "the same bits" if same else "other"
        if not same:
            why = done.stderr.strip() or "other bits"
            program.failures.append(f"{program.name}: loaded in a fresh interpreter: {why}")
    if done.returncode and not any(program.failures for program in all_programs):
        all_programs[0].failures.append(f"the fresh interpreter: {done.stderr.strip()}")


def table(all_programs: list[Program], peaks: dict[int, float], processors: int) -> list[str]:
    from tvm_iree_ext.base.text_tables import table_lines

    header = ["program", "query", "build s", "off PyTorch", "off reference", "us", "threads"]
    header += ["GFLOP/s", "of FMA peak", "loaded again"]
    body = []
    for program in all_programs:
        threads = processors if program.kernel.config.parallel else 1
        gflops = program.op.flops() / program.run_seconds / 1e9
        query = program.operands["query"]
        body.append(
            [
                program.name,
                f"{'x'.join(map(str, query.shape))} {SHORT[str(query.dtype)]}",
                f"{program.build_seconds:.2f}",
                program.verdicts.get("PyTorch", "-"),
                program.verdicts["the reference"],
                f"{program.run_seconds * 1e6:.1f}",
                str(threads),
                f"{gflops:.1f}",
                f"{gflops / peaks[threads]:.0%}",
                program.verdicts["loaded"],
            ]
        )
    return ["attention on this machine's CPU", *table_lines(header, body, console.width)]


def draw_layout(ext: Any, path: Path) -> None:
    layout = ext.layout.parse_layout(LAYOUT)
    color, width = console.is_terminal, max(console.width, 80)
    picture = ext.layout.text_picture(layout, color=color, width=width, max_rows=16)
    sys.stdout.write(f"\nWho holds what in {LAYOUT}\n{picture}\n")
    sys.stdout.flush()
    ext.layout.save_svg(str(path), layout)


def run(place: Path) -> list[str]:
    """All steps; returns what is wrong."""
    step("import TVM")
    import tvm_iree_ext as ext
    from tvm_iree_ext.base.errors import ExtError

    processors = ext.available_processors()
    step("measure the multiply-add peak")
    measured = ext.bench.measure_peaks(sorted({1, processors}), ("float32",))
    peaks = {peak.threads: peak.gflops["float32"] for peak in measured}
    shown = (f"{peak:.0f} GFLOP/s on {count}" for count, peak in peaks.items())
    step(f"the peak: {', '.join(shown)} of {processors} processors")

    all_programs = programs(ext)
    for program in all_programs:
        step(f"{program.name}: build, run, compare, time, export")
        try:
            build_and_compare(ext, program)
            measure(ext, program)
            export(program, place)
        except ExtError as error:
            return [f"{program.name}: {error}"]
    step("load in a fresh interpreter, and run again")
    load_and_run_again(all_programs, place)

    for line in table(all_programs, peaks, processors):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    draw_layout(ext, place / "layout.svg")
    step(f"the layout as a picture: {place / 'layout.svg'}")
    step(f"the kernels: {place}/*/kernel")
    return [failure for program in all_programs for failure in program.failures]


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "demo", help="for results")
    args = parser.parse_args()
    if not console.is_terminal:
        console.width = 140
    failures = run(args.folder.resolve())
    for failure in failures:
        print(f"demo: failed: {failure}", file=sys.stderr)
    if not failures:
        step("all results are right")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
