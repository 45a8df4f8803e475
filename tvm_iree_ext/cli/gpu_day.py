"""``tvm-iree-ext gpu-day``: every kernel on a GPU: right, and how fast."""

import argparse
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import tvm_iree_ext as ext
from tvm_iree_ext.cli.operands import UsageError
from tvm_iree_ext.cli.parser import count_from
from tvm_iree_ext.cli.progress import bar

_ARCHIVE = "gpu-day.zip"
_LEAST_TUNED_S = 60.0  # of which half goes into turns at the end


def add_gpu_day(commands: argparse._SubParsersAction) -> None:
    """Add the command ``gpu-day``."""
    parser = commands.add_parser(
        "gpu-day",
        help="check and time kernels on a GPU, here or on a machine with a driver and Python alone",
        description="Build kernels for a GPU, with operands and the results that are right, and"
        " pack them into one file that Python runs where there is a driver and NumPy:"
        " 'python FILE --minutes 9 --out DIR'. Without --pack the file is run at once.",
    )
    parser.add_argument("--pack", type=Path, metavar="FILE", help="write the file, and run nothing")
    parser.add_argument(
        "--target", action="append", default=[], metavar="T",
        help="such as cuda:sm_90a, which is the default; repeatable. One that ends with ':ptx' is"
        " packed as PTX, which a driver compiles for a newer chip",
    )  # fmt: skip
    parser.add_argument("--op", action="append", metavar="OP", help="these ops alone; repeatable")
    parser.add_argument(
        "--cases", type=count_from(0), default=10, metavar="N",
        help="random cases of each op (default: 10)",
    )  # fmt: skip
    parser.add_argument("--seed", type=count_from(0), default=0, metavar="S", help="default: 0")
    parser.add_argument("--examples", metavar="FILE", help="and the cases of this JSON file")
    parser.add_argument(
        "--programs", type=Path, metavar="FOLDER",
        help="and the programs of this folder: each NAME.mlir with its arrays in NAME.npz",
    )  # fmt: skip
    parser.add_argument(
        "--time", action="append", metavar="TEXT",
        help="kernels to be timed: those whose names contain this; repeatable (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--models", action="append", metavar="TEXT",
        help="and time whole programs of 'bench programs' whose names contain this; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=count_from(1), default=2, metavar="N", help="processes that build"
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="of the run (default: 9)")
    parser.add_argument("--out", type=Path, default=Path("gpu-day"), help="of the run's results")
    parser.add_argument(
        "--tune", action=argparse.BooleanOptionalAction, default=True,
        help="tune the suite 'gpu' for the rest of the minutes, without --pack (default: yes)",
    )  # fmt: skip
    parser.set_defaults(run=run_gpu_day)


def run_gpu_day(args: argparse.Namespace) -> int:
    """Pack, and run what was packed."""
    targets = args.target or ["cuda:sm_90a"]
    kinds = {target.partition(":")[0] for target in targets}
    if not args.pack and len(kinds) > 1:
        raise UsageError("gpu-day: targets of two kinds; one GPU runs one of them")
    path = args.pack or args.out / _ARCHIVE
    path.parent.mkdir(parents=True, exist_ok=True)
    cases = ext.verify.random_cases(args.op, args.cases, args.seed) if args.cases else []
    if args.op is None:
        cases = [*ext.gpu_day.large_checks(), *cases]
    if args.examples is not None:
        cases = [*ext.verify.example_cases(args.examples, args.op), *cases]
    names = ext.gpu_day.speed_names(args.time)
    order = ext.gpu_day.PackOrder(
        checks=[
            (target.removesuffix(":ptx"), cases, target.endswith(":ptx")) for target in targets
        ],
        programs=[
            (target, file)
            for target in targets
            if not target.endswith(":ptx")
            for file in (sorted(args.programs.glob("*.mlir")) if args.programs else ())
        ],
        peaks=[target for target in targets if names and not target.endswith(":ptx")],
        speed=[
            (target, name) for target in targets if not target.endswith(":ptx") for name in names
        ],
        models=[
            (target, name)
            for target in targets
            if args.models and not target.endswith(":ptx")
            for name in ext.gpu_day.model_names(args.models)
        ],
    )
    problems = _pack(path, order, args.jobs)
    if args.pack:
        return 1 if problems else 0
    end = time.monotonic() + 60 * args.minutes
    command = [sys.executable, path, "--kind", *kinds, "--minutes", args.minutes, "--out", args.out]
    status = subprocess.run(list(map(str, command))).returncode
    if args.tune:
        _tune(targets[0].removesuffix(":ptx"), end - time.monotonic(), args.out)
    return status


def _tune(target: str, seconds: float, out: Path) -> None:
    """Search faster configs on the GPU, and keep the records beside the other results."""
    if seconds < _LEAST_TUNED_S:
        return
    session = ext.tuning.tune(
        ext.tuning.suite("gpu"), target, time_limit_s=seconds, database=out / "records.jsonl"
    )
    for line in ext.tuning.report.report_lines(session):
        print(line, flush=True)


def _pack(path: Path, order: "ext.gpu_day.PackOrder", jobs: int) -> int:
    """Pack with a bar, and print what could not be; returns how many failed."""
    unsupported: Counter[str] = Counter()
    problems = kernels = 0
    with bar("pack", order.count) as advance:
        for one in ext.gpu_day.pack(path, order, jobs=jobs):
            advance()
            kernels += one.count
            if one.unsupported:
                unsupported[one.problem] += 1
            elif one.problem:
                problems += 1
                print(f"FAILED {one.id}: {one.problem}", flush=True)
    for reason, count in unsupported.items():
        print(f"no kernel: {reason} ({count} {'case' if count == 1 else 'cases'})")
    print(f"{path}: {kernels} kernels, {path.stat().st_size / 2**20:.1f} MiB")
    return problems
