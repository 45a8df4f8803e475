"""``tvm-iree-ext bench programs`` and ``models``: whole programs beside what else runs them."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.cli.parser import count_from

if TYPE_CHECKING:
    from rich.console import Console

PROGRAMS_SUITE = "programs"
MODELS_SUITE = "models"


def add_programs_options(parser: argparse.ArgumentParser) -> None:
    """Add what only the suites ``programs`` and ``models`` take."""
    group = parser.add_argument_group(
        "programs and models",
        "Each is built, checked beside its framework, and timed in a process of its own. Files and"
        " --cases are as above, but for --json and --roofline.",
    )
    # Names may also stand behind options: see cli/main.py.
    group.add_argument(
        "operands", nargs="*", metavar="NAME", help="these programs (default: the whole list)"
    )
    group.add_argument(
        "--peers",
        type=lambda text: [name.strip() for name in text.split(",")],
        metavar="NAME,...",
        help="these alone: PyTorch, torch.compile, ONNX Runtime, IREE, JAX, or none (default: all)",
    )
    group.add_argument(
        "--limit",
        type=count_from(1),
        metavar="SECONDS",
        help="what a program may take; who is at work then is left out (default: 600)",
    )
    group.add_argument(
        "--log",
        type=Path,
        metavar="FILE.jsonl",
        help="keep what became of each; a further run goes on from it",
    )
    group.add_argument("--picture", metavar="FILE", help="draw the ratios: SVG, PNG or PDF")


def bench_programs(
    args: argparse.Namespace,
    console: "Console",
    threads: Sequence[int],
    progress: Callable[[str], None],
) -> int:
    """Measure and print; 1 where a program or a peer computes something wrong."""
    if args.json is not None or args.roofline is not None or args.odd or args.costs:
        raise ExtError(
            "bench: programs take --log, --markdown and --picture, and none of --json, --roofline,"
            " --odd and --costs"
        )
    listed = ext.bench.MODELS if args.suite == MODELS_SUITE else ext.bench.PROGRAMS
    rows: list[Any] = []
    load = ext.bench.OtherLoad()
    machine = ext.bench.Machine.here()

    def write() -> None:
        if args.markdown is not None:
            text = ext.bench.program_markdown(rows, machine=machine, other_load=load.share())
            ext.bench.write_whole(args.markdown, text)

    try:
        if args.picture is not None:
            ext.bench.check_picture(args.picture, "picture")
        for row in ext.bench.run_programs(
            ext.bench.select_programs(args.operands, args.cases, listed),
            threads=threads,
            peers=_peers(args.peers),
            quick=args.quick,
            limit_s=args.limit or ext.bench.PROGRAM_LIMIT_S,
            log=args.log,
            progress=progress,
        ):
            rows.append(row)
            console.print(ext.bench.program_text(row), highlight=False, soft_wrap=True)
            write()
    except ValueError as error:
        raise ExtError(f"bench: {error}") from error
    if args.picture is not None:
        ext.bench.save_bars(rows, args.picture)
    for line in ext.bench.program_summary(rows):
        console.print(line, highlight=False, soft_wrap=True)
    for place in (args.log, args.markdown, args.picture):
        if place is not None:
            console.print(f"written: {Path(place)}", highlight=False, soft_wrap=True)
    complaints = ext.bench.program_complaints(rows)
    for complaint in complaints:
        console.print(f"wrong: {complaint}", highlight=False, soft_wrap=True)
    return 1 if complaints else 0


def _peers(names: Sequence[str] | None) -> tuple[str, ...]:
    """Those that are asked for, by their names in any case, in the table's order."""
    known = {name.lower(): name for name in ext.bench.PROGRAM_PEERS}
    if names is None:
        return tuple(known.values())
    if names == ["none"]:
        return ()
    return tuple(known.get(name.lower(), name) for name in names)
