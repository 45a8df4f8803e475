"""``tvm-iree-ext layout``: who holds what, and what a change of layout takes."""

import argparse
import json
import os
import shutil
import sys

from tvm_iree_ext.layout import fewest_hardware, parse_layout, report_data, report_text, save_svg


def add_layout(commands: argparse._SubParsersAction) -> None:
    """Add the command ``layout``."""
    parser = commands.add_parser(
        "layout",
        help="show who holds what in a nested layout, and what a conversion takes",
        description="Show shapes, ids and a picture of a nested layout.",
    )
    parser.add_argument(
        "layout", metavar="ATTR", help="'#iree_vector_ext.nested_layout<...>', as IREE prints it"
    )
    parser.add_argument(
        "--to", metavar="ATTR", help="also show what converting to this layout takes"
    )
    parser.add_argument(
        "--num-subgroups", type=int, metavar="N", help="default: as few as the layouts need"
    )
    parser.add_argument(
        "--subgroup-size", type=int, metavar="N", help="lanes; default: as few as the layouts need"
    )
    parser.add_argument("--svg", metavar="FILE", help="also draw the picture into this file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument(
        "--no-color", action="store_true", help="name subgroups instead of colouring them"
    )
    parser.set_defaults(run=run_layout)


def run_layout(args: argparse.Namespace) -> None:
    """Print, and draw, what was asked for."""
    layout = parse_layout(args.layout)
    result = parse_layout(args.to) if args.to is not None else None
    subgroups, lanes = fewest_hardware(layout, *([result] if result is not None else []))
    subgroups = args.num_subgroups if args.num_subgroups is not None else subgroups
    lanes = args.subgroup_size if args.subgroup_size is not None else lanes
    if args.json:
        print(json.dumps(report_data(layout, subgroups, lanes, result)))
    else:
        color = sys.stdout.isatty() and not args.no_color and "NO_COLOR" not in os.environ
        width = shutil.get_terminal_size().columns
        print(report_text(layout, subgroups, lanes, result, color=color, width=width))
    if args.svg is not None:
        save_svg(args.svg, layout, subgroups, lanes)
