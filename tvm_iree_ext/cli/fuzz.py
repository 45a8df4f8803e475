"""``tvm-iree-ext fuzz texts`` and ``fuzz programs``: look for what nobody has thought of."""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import tvm_iree_ext as ext
from tvm_iree_ext.cli.parser import count_from

_TELLING = 30  # seconds between two words of how far it is


def add_fuzz(commands: argparse._SubParsersAction) -> None:
    """Add the command ``fuzz``."""
    parser = commands.add_parser(
        "fuzz", help="try mutated texts and random programs, and look for what is wrong"
    )
    kinds = parser.add_subparsers(required=True, metavar="KIND")
    _add_texts(kinds)
    _add_programs(kinds)


def _add_texts(kinds: argparse._SubParsersAction) -> None:
    parser = kinds.add_parser(
        "texts",
        help="mutated texts of MLIR: each must be imported or refused",
        description="Import mutated texts of MLIR, and look for what is neither a program nor a"
        " clear error. Case I of a seed is the same text everywhere. Exit status 1 where one is"
        " wrong.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="of .mlir files")
    parser.add_argument(
        "--count", type=count_from(1), default=1000, metavar="N", help="cases (default: 1000)"
    )
    parser.add_argument(
        "--start", type=count_from(0), default=0, metavar="I", help="the first (default: 0)"
    )
    parser.add_argument(
        "--seed", type=count_from(0), default=0, metavar="S", help="of them (default: 0)"
    )
    parser.add_argument("--case", type=count_from(0), metavar="I", help="this one alone")
    parser.add_argument("--show", action="store_true", help="print the texts instead")
    parser.add_argument("--build", action="store_true", help="build what is imported, too")
    parser.add_argument(
        "--jobs", type=count_from(1), default=1, metavar="J", help="processes (default: 1)"
    )
    parser.set_defaults(run=run_texts)


def run_texts(args: argparse.Namespace) -> int:
    """Import the texts, and print what is wrong, and counts."""
    paths = sorted(path for folder in args.folders for path in folder.glob("*.mlir"))
    texts = [path.read_text("utf-8") for path in paths]
    if not texts:
        raise ext.errors.MlirError("fuzz texts: the folders have no .mlir file")
    indices = range(args.start, args.start + args.count) if args.case is None else [args.case]
    if args.show:
        for index in indices:
            print(ext.program_checks.mlir_fuzz.case(args.seed, index, texts))
        return 0
    counts = Counter[str]()
    for finding in ext.program_checks.mlir_fuzz.fuzz(
        texts, indices, args.seed, jobs=args.jobs, build=args.build
    ):
        counts[finding.kind] += 1
        if finding.kind == "wrong":
            print(f"case {finding.index} of seed {args.seed}: {finding.message}", flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


def _add_programs(kinds: argparse._SubParsersAction) -> None:
    parser = kinds.add_parser(
        "programs",
        help="random programs: each must give what NumPy gives",
        description="Write random programs of 5 to 30 operations in a language, build and run each"
        " in a process of its own, and compare with what its operations mean in NumPy. A program"
        " that gives something else, ends the process, takes too long or raises an error that is"
        " not ours is made as small as it still does, and printed as a file of Python. The last"
        " line has the counts; the exit status is 1 where one is wrong.",
    )
    parser.add_argument(
        "--from",
        dest="door",
        default="linalg",
        metavar="DOOR",
        help="linalg, stablehlo, jax, torch or relax (default: %(default)s)",
    )
    parser.add_argument(
        "--count", type=count_from(1), default=100, metavar="N", help="programs (default: 100)"
    )
    parser.add_argument(
        "--seed", type=count_from(0), default=0, metavar="S", help="of the first (default: 0)"
    )
    parser.add_argument(
        "--types",
        type=lambda text: text.split(","),
        default=list(ext.random_programs.TYPES),
        metavar="T,...",
        help="what their arrays are mostly of, in turns (default: all)",
    )
    parser.add_argument(
        "--ops",
        type=count_from(5),
        default=30,
        metavar="MAX",
        help="operations of one at most (default: 30)",
    )
    _add_setting(parser)
    _add_limits(parser)
    parser.set_defaults(run=run_programs)


def _add_setting(parser: argparse.ArgumentParser) -> None:
    """Options for the target that programs run on, and for the checks made there."""
    parser.add_argument(
        "--target",
        default="llvm",
        metavar="T",
        help="one that runs here, or with --simulate a GPU (default: %(default)s)",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="run kernels for a GPU, such as cuda:sm_80 or rocm:gfx942, on the simulator",
    )
    parser.add_argument(
        "--passes",
        action="store_true",
        help="check the kernels of each stage by stage, as verify does",
    )
    parser.add_argument(
        "--guard",
        action="store_true",
        help="call the kernels of each once more, with arrays and workspaces beside pages that"
        " cannot be touched; results and workspaces are noise at first",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """How long and how many at once, and what is kept."""
    parser.add_argument(
        "--jobs", type=count_from(1), default=1, metavar="J", help="processes (default: 1)"
    )
    parser.add_argument(
        "--minutes", type=count_from(1), metavar="M", help="begin no further one after these"
    )
    parser.add_argument(
        "--limit",
        type=count_from(1),
        default=120,
        metavar="SECONDS",
        help="what one may take (default: %(default)s)",
    )
    parser.add_argument(
        "--log",
        type=Path,
        metavar="FILE.jsonl",
        help="keep what became of each; a further run goes on from it",
    )
    parser.add_argument(
        "--whole", action="store_true", help="do not make programs smaller that are wrong"
    )


def run_programs(args: argparse.Namespace) -> int:
    """Try the programs, and print what is wrong, what is refused, and counts."""
    programs = ext.random_programs
    setting = programs.Setting(args.door, args.target, args.simulate, args.passes, args.guard)
    recipes = programs.recipes(args.types, args.count, args.seed, args.ops)
    counts, refused, told = Counter[str](), Counter[str](), time.monotonic()
    results = programs.run(
        setting,
        recipes,
        jobs=args.jobs,
        limit_s=args.limit,
        minutes=args.minutes,
        log=args.log,
        smaller=not args.whole,
    )
    for result in results:
        counts[result.kind] += 1
        if result.kind == "refused":
            refused[result.cause] += 1
        elif result.kind != "right":
            print(f"{result}\n{result.script}", flush=True)
        if time.monotonic() - told > _TELLING:
            told = time.monotonic()
            print(f"{counts.total()} of {len(recipes)} tried", file=sys.stderr, flush=True)
    for cause, count in refused.most_common():
        print(f"{cause} ({count})")
    print(", ".join(f"{counts[kind]} {kind}" for kind in programs.KINDS if counts[kind]))
    return 1 if any(counts[kind] for kind in programs.FAULTS) else 0
