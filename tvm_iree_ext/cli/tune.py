"""``tvm-iree-ext tune``: faster configs searched, and kept for ``build``."""

import argparse
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.cli.operands import make_op
from tvm_iree_ext.cli.run import SUFFIXES

_EPILOG = """\
examples:
  tvm-iree-ext tune attention 1x8x1024x64xf32 1x8x1024x64xf32 1x8x1024x64xf32 --effort quick
  tvm-iree-ext tune model.mlir --time-limit 10m
  tvm-iree-ext tune --suite readme --time-limit 3m

Ctrl-C and SIGTERM end a session well: what was found is measured once more, and kept.  A session
that was killed is taken up where it was by the same command.
"""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """``90s``, ``10m`` or ``1.5h`` in seconds; a bare number is of seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 90s, 10m or 1.5h")
    return float(match[1]) * _UNITS[match[2] or "s"]


def add_tune(commands: argparse._SubParsersAction) -> None:
    """Add the command ``tune``."""
    parser = commands.add_parser(
        "tune",
        help="search faster configs for an op, a program or a suite",
        description="Search lowering configs that are faster than the heuristics', by measuring\n"
        "candidates on this machine, and keep them where 'build' finds them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "op",
        metavar="OP|FILE.mlir",
        nargs="?",
        help="an op as 'tvm-iree-ext build' takes it, or a program, whose kernels are tuned by"
        " their share of its time",
    )
    parser.add_argument("operands", metavar="OPERAND", nargs="*", help="types in the op's order")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="an attribute of OP"
    )
    parser.add_argument("--suite", metavar="NAME", help="several ops: readme, common or gpu")
    parser.add_argument(
        "--target", default="llvm", metavar="T", help="as for build (default: %(default)s)"
    )
    _add_search(parser)
    parser.add_argument("--records", metavar="FILE", help="(default: the user's own file)")
    parser.add_argument(
        "--log", metavar="FILE.json", help="all trials (default: beside the records)"
    )
    parser.add_argument(
        "--curve",
        metavar="FILE.svg|.png",
        help="a picture of how times went down (default: beside the records)",
    )
    parser.add_argument("--json", action="store_true", help="print the log instead of text")
    parser.set_defaults(run=run_tune)


def _add_search(parser: argparse.ArgumentParser) -> None:
    """How long and by what is searched, and where candidates are measured."""
    parser.add_argument(
        "--effort",
        choices=("quick", "normal", "thorough"),
        default="normal",
        help="how many trials, and how much time for each op (default: %(default)s)",
    )
    parser.add_argument("--trials", type=int, metavar="N", help="of each op")
    parser.add_argument("--time-limit", type=duration, metavar="T", help="of all, such as 10m")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="of the search (default: %(default)s)"
    )
    parser.add_argument(
        "--model",
        choices=("xgboost", "random", "none"),
        default="xgboost",
        help="what candidates are chosen by: trees that learn from the trials; evolution by chance;"
        " or chance alone (default: %(default)s)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--static",
        action="store_true",
        help="for a GPU that is not here: rank by a time that is computed from what compilers say",
    )
    where.add_argument(
        "--fleet",
        metavar="HOST:PORT",
        help="measure on the devices that this tracker knows; see 'tvm-iree-ext fleet'",
    )
    parser.add_argument("--key", metavar="KEY", help="the devices' (default: the fleet's own)")


def run_tune(args: argparse.Namespace) -> None:
    """Tune, and print what was found."""
    records = (
        ext.records.record_files.user_records() if args.records is None else Path(args.records)
    )
    if args.curve is not None:
        ext.tuning.report.need_matplotlib()
    with ext.tuning.display.shown(quiet=args.json) as update:
        session = ext.tuning.tune(
            _tasks(args),
            args.target,
            effort=args.effort,
            trials=args.trials,
            time_limit_s=args.time_limit,
            seed=args.seed,
            model=args.model,
            database=records,
            measurer=_measurer(args),
            method="static" if args.static else "measured",
            update=update,
        )
    written = _write(session, args, records)
    if args.json:
        print(json.dumps(ext.tuning.report.report_data(session)))
        return
    for line in ext.tuning.report.report_lines(session):
        print(line)
    print(f"records: {records}")
    for line in written:
        print(line)


def _measurer(args: argparse.Namespace) -> Any:
    """A factory of the measurer; None for the one of this machine.

    Raises:
        TuningError: for a key without a fleet.
    """
    if args.key is not None and args.fleet is None:
        raise TuningError("--key is that of a fleet: name its tracker by --fleet")
    if args.static:
        return lambda: ext.tuning.StaticMeasurer(args.target)
    if args.fleet is None:
        return None
    key = args.key or ext.tuning.fleet_address.DEFAULT_KEY
    return lambda: ext.tuning.FleetMeasurer(args.target, args.fleet, key, seed=args.seed)


def _tasks(args: argparse.Namespace) -> Any:
    """An op or tasks.

    Raises:
        TuningError: for a command line that names none, or both.
    """
    if (args.op is None) == (args.suite is None):
        raise TuningError("name an op, a FILE.mlir or a --suite; and one of them")
    if args.suite is not None:
        return ext.tuning.suite(args.suite)
    if args.op.endswith(SUFFIXES):
        if args.operands or args.set:
            raise TuningError(f"{args.op} is a program, which has no operands or attributes")
        return ext.tuning.program_tasks(args.op, args.target)
    return make_op(args.op, args.operands, args.set)


def _write(session: Any, args: argparse.Namespace, records: Path) -> list[str]:
    """Write log and curve; lines that say where, and what is not drawn."""
    folder = records.parent / "sessions"
    if args.log is None or args.curve is None:
        folder.mkdir(parents=True, exist_ok=True)
    stem = f"{datetime.now():%Y%m%d-%H%M%S}-seed{session.seed}"
    log = folder / f"{stem}.json" if args.log is None else Path(args.log)
    curve = folder / f"{stem}.svg" if args.curve is None else Path(args.curve)
    ext.tuning.report.write_report(session, log)
    lines = [f"log: {log}"]
    try:
        ext.tuning.report.draw_curve(session, curve)
    except TuningError as error:
        if args.curve is not None:
            raise
        return [*lines, f"no curve: {error}"]
    return [*lines, f"curve: {curve}"]
