"""``tvm-iree-ext list``: the ops, and on what they run."""

import argparse
import json

import tvm_iree_ext as ext
from tvm_iree_ext.base.wrapped_text import print_wrapped


def add_list(commands: argparse._SubParsersAction) -> None:
    """Add the command ``list``."""
    parser = commands.add_parser(
        "list",
        help="list the ops, and on what they run",
        description="List the ops by target: 'runs' here; 'emulated', its machine code is executed"
        " here by verify --emulate; 'compiles' here and runs elsewhere; or 'no'.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run_list)


def run_list(args: argparse.Namespace) -> None:
    """Print the table."""
    table = ext.support.support()
    entries = ext.registry.ENTRIES
    if args.json:
        rows = [
            {"op": name, "summary": entries[name].summary, "targets": targets}
            for name, targets in table.items()
        ]
        print(json.dumps(rows, indent=2))
        return
    for name, targets in table.items():
        print_wrapped(f"{name}: {entries[name].summary}")
        for target, support in targets.items():
            print(f"    {support:<8}  {target}")
