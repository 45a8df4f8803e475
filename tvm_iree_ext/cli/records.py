"""``tvm-iree-ext records``: what was tuned, and files of it put in order."""

import argparse
import json
from pathlib import Path

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.base.lowering_config import changed_fields
from tvm_iree_ext.base.wrapped_text import print_wrapped


def add_records(commands: argparse._SubParsersAction) -> None:
    """Add the command ``records``."""
    parser = commands.add_parser(
        "records",
        help="show what was tuned; merge, prune, export and import files of records",
        description="Records say which lowering configs were tried for an op on a target, and how"
        " long they took; 'build' takes the best.  Without FILE the user's own file is meant.",
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    show = actions.add_parser("show", help="print the records, the best of each op first")
    show.add_argument("file", metavar="FILE", nargs="?", help="a file of records")
    show.add_argument("--shipped", action="store_true", help="those that come with the package")
    show.add_argument("--op", metavar="OP", default="", help="only ops whose names contain OP")
    show.add_argument("--all", action="store_true", help="all trials, those that failed, too")
    show.add_argument("--json", action="store_true", help="print JSON instead of text")
    show.set_defaults(run=run_show)

    merge = actions.add_parser("merge", help="add the records of other files to a file")
    merge.add_argument("file", metavar="FILE", help="the file to add to")
    merge.add_argument("others", metavar="OTHER", nargs="+", help="files to add")
    merge.set_defaults(run=run_merge)

    prune = actions.add_parser("prune", help="leave the best records of each op in a file")
    prune.add_argument("file", metavar="FILE", nargs="?", help="a file of records")
    prune.add_argument("--keep", type=int, default=3, metavar="N", help="(default: %(default)s)")
    prune.set_defaults(run=run_prune)

    export = actions.add_parser("export", help="write the user's records to a file")
    export.add_argument("file", metavar="FILE", help="the file to write")
    export.add_argument("--best", type=int, metavar="N", help="only the N best of each op")
    export.add_argument(
        "--metaschedule",
        action="store_true",
        help="write a folder that is a database of MetaSchedule's",
    )
    export.set_defaults(run=run_export)

    take = actions.add_parser("import", help="add the records of files to the user's")
    take.add_argument(
        "others", metavar="FILE", nargs="+", help="files to add, or databases of MetaSchedule's"
    )
    take.set_defaults(run=run_import)


def run_show(args: argparse.Namespace) -> None:
    """Print a line for each record."""
    if args.shipped and args.file:
        raise TuningError(f"{args.file} is not shipped; leave it or --shipped out")
    paths = (
        [_file(args.file)] if not args.shipped else list(ext.records.record_files.shipped_records())
    )
    if not args.shipped and args.file is None and not paths[0].exists():
        raise TuningError(f"nothing was tuned yet: there is no {paths[0]}")
    every = [
        record
        for path in paths
        for record in ext.records.record_files.read(path)
        if args.op in record.op
    ]
    chosen = every if args.all else ext.tuning.best(every, keep=1)
    if args.json:
        for record in chosen:
            print(record.to_line(), end="")
        return
    for record in chosen:
        target = " ".join(str(record.target[k]) for k in ("kind", "arch", "mcpu", "num-cores")
                          if k in record.target)  # fmt: skip
        print_wrapped(f"{record.op}  {ext.records.shape_text(record)}  {target}: {_how(record)}")
        print_wrapped(json.dumps(changed_fields(record.config)), "    ")
    files = ", ".join(map(str, paths)) or "no file"
    print_wrapped(f"{len(chosen)} of {len(every)} records of {files}")


def _how(record: ext.records.Record) -> str:
    if record.status != "ok":
        return f"{record.status}: {record.message}" if record.message else record.status
    text = f"{record.time_us:.4g} µs"
    if record.baseline_us is not None:
        text += f", heuristic {record.baseline_us:.4g} µs"
    text += f", {record.method} {record.date[:10]}"
    return text if record.is_current else f"{text}, of another version: not used"


def run_merge(args: argparse.Namespace) -> None:
    """Merge, and say how many are new."""
    added = ext.tuning.Database(_file(args.file)).merge(args.others)
    print(f"{added} records added to {args.file}")


def run_prune(args: argparse.Namespace) -> None:
    """Prune, and say how many went."""
    path = _existing(args.file)
    gone = ext.tuning.Database(path).prune(args.keep)
    print(f"{gone} records removed from {path}")


def run_export(args: argparse.Namespace) -> None:
    """Export the user's records."""
    database = ext.tuning.Database(_existing(None))
    if args.metaschedule:
        records = database.records()
        if args.best is not None:
            records = ext.tuning.best(records, args.best)
        count = ext.tuning.write_metaschedule(records, args.file)
    else:
        count = database.export(args.file, args.best)
    print(f"{count} records written to {args.file}")


def run_import(args: argparse.Namespace) -> None:
    """Merge files into the user's."""
    path = _file(None)
    print(f"{ext.tuning.Database(path).merge(args.others)} records added to {path}")


def _file(given: str | None) -> Path:
    return ext.records.record_files.user_records() if given is None else Path(given)


def _existing(given: str | None) -> Path:
    path = _file(given)
    if not path.exists():
        raise TuningError(f"there is no {path}")
    return path
