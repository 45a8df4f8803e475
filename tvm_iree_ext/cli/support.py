"""``tvm-iree-ext support``: which nodes of a model are taken, and which are refused."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

import tvm_iree_ext as ext
from tvm_iree_ext.base.text_tables import table_lines, width_of
from tvm_iree_ext.cli.operands import UsageError
from tvm_iree_ext.cli.run import EXPORTED, ONNX
from tvm_iree_ext.frontends.base import model_support


def add_support(commands: argparse._SubParsersAction) -> None:
    """Add the command ``support``."""
    parser = commands.add_parser(
        "support",
        help="say which nodes of a model are taken, and which are refused",
        description="Say what becomes of each node of a model of ONNX or an exported program of"
        " PyTorch, before anything is built: taken by a front end, replaced by other operators that"
        " are, or refused, and why. Where the model is refused as a whole, each node is tried"
        " alone. Exit status 1 where it does not import.",
    )
    parser.add_argument("file", metavar=f"FILE{ONNX}|FILE{EXPORTED}")
    parser.add_argument("--nodes", action="store_true", help="list refused nodes by name and line")
    parser.add_argument("--json", action="store_true", help="print JSON, a node each, instead")
    parser.set_defaults(run=run_support)


def run_support(args: argparse.Namespace) -> int:
    """Print what becomes of the nodes; 1 where the model does not import."""
    if args.file.endswith(ONNX):
        support = ext.frontends.support_onnx(Path(args.file))
    elif args.file.endswith(EXPORTED):
        support = ext.frontends.support_torch(ext.frontends.read_exported(args.file))
    else:
        raise UsageError(f"expected a file of {ONNX} or {EXPORTED}; {args.file} came")
    if args.json:
        print(json.dumps(dataclasses.asdict(support), indent=1))
        return int(not support)
    rows = model_support.rows(support)
    print("\n".join(table_lines(model_support.HEADER, rows, width_of(sys.stdout), left=(0, 2))))
    if args.nodes and support.refused:
        print("", *model_support.places(support.refused), sep="\n")
    print(f"\n{model_support.summary(support)}")
    return int(not support)
