"""``tvm-iree-ext vector-stages``: watch the vector patterns rewrite a program."""

import argparse
import json
import textwrap
from typing import TYPE_CHECKING, Any

import tvm_iree_ext as ext

if TYPE_CHECKING:
    from tvm_iree_ext.vector import Stage

_WIDTH = 100


def add_vector_stages(commands: argparse._SubParsersAction) -> None:
    """Add the command ``vector-stages``."""
    parser = commands.add_parser(
        "vector-stages",
        help="show how the vector patterns rewrite a program, stage by stage",
        description="Show a program after each vector pattern, with how many ops it has before, in"
        " and after its loop: dot is 128x256 times 256x64 minus a matrix, conv a convolution of"
        " 1x224x224x3 by 3x3x3x32 with stride 2 and padding minus a tensor.",
    )
    parser.add_argument("program", choices=("dot", "conv"), help="which program")
    parser.add_argument("--stage", metavar="NAME", help="only this stage")
    parser.add_argument(
        "--target",
        metavar="T",
        help="choose tiles and registers for this target (default: 128 bits, small tiles)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run_vector_stages)


def run_vector_stages(args: argparse.Namespace) -> None:
    """Print the stages."""
    found = ext.vector_stages(args.program, args.target, args.stage)
    if args.json:
        print(json.dumps([_data(stage) for stage in found], indent=2))
        return
    print("\n\n".join(_text(stage) for stage in found))


def _counts(stage: "Stage") -> dict[str, dict[str, int]]:
    return {region: dict(counts) for region, counts in stage.counts.items() if counts}


def _data(stage: "Stage") -> dict[str, Any]:
    return {
        "stage": stage.name,
        "why": stage.why,
        "counts": _counts(stage),
        "carried": stage.carried,
        "text": stage.text,
    }


def _text(stage: "Stage") -> str:
    lines = [f"== {stage.name} ==", *textwrap.wrap(stage.why, _WIDTH), "", stage.text, ""]
    for region, counts in _counts(stage).items():
        listed = ", ".join(f"{number} x {op}" for op, number in counts.items())
        lines += textwrap.wrap(f"{region + ':':8}{listed}", _WIDTH, subsequent_indent=" " * 8)
    if stage.carried:
        lines.append(f"carried: {'; '.join(stage.carried)}")
    return "\n".join(lines)
