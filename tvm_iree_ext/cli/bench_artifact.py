"""``tvm-iree-ext bench DIR``: how long calls of an artifact take on this machine."""

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.base.versions import is_runtime_alone
from tvm_iree_ext.cli.run import ARRAYS, arguments_of, find_function

_QUICK_S = 0.2


def is_artifact(word: str) -> bool:
    """Whether a word names an artifact; one by a suite's name takes a path such as ./attention."""
    if not is_runtime_alone() and word in (*ext.bench.SUITES, *ext.bench.OTHER_SUITES):
        return False
    return (Path(word) / "manifest.json").is_file()


def add_artifact_options(parser: argparse.ArgumentParser) -> None:
    """Add what only artifacts take."""
    group = parser.add_argument_group(
        "artifacts", "One is called again and again; --threads and --quick are as above."
    )
    group.add_argument(
        "--inputs", metavar="FILE.npz", help=f"{ARRAYS}; by default noise, and zeros for integers"
    )
    group.add_argument("--function", metavar="NAME", help="default: the only one, or main")


def bench_artifact(args: argparse.Namespace, threads: Sequence[int]) -> int:
    """Time the calls with each number of threads, and print a line for each."""
    name, function = find_function(args.suite, args.function)
    signature = function.signature
    arguments = arguments_of(name, signature, args.inputs)
    sizes = [one.nbytes for one in arguments if one is not None]
    print(f"{name}: {_bytes(sum(sizes))} of arguments")
    counts: Sequence[int | None] = threads if _has_threads(ext.load(args.suite)) else [None]
    for count in counts:
        try:
            with nullcontext() if count is None else ext.threads(count):
                times = ext.measure_calls(function, arguments, **_length(args.quick))
        except ValueError as error:  # more threads than there are
            raise ExtError(f"bench: {error}") from error
        print(
            f"{'' if count is None else f'threads {count}: '}{_time(times.median)} a call, half of"
            f" them {_time(times.lower)} to {_time(times.upper)}, of {times.calls}"
        )
    return 0


def _has_threads(loaded: "ext.Kernel | ext.Program") -> bool:
    """Whether the runtime's threads may be at work: not in serial kernels, nor on a GPU."""
    is_on_cpu = loaded.target.get("kind") == "llvm"
    return is_on_cpu and loaded.resources.get("needs_runtime", True)


def _length(quick: bool) -> dict[str, Any]:
    return {"seconds": _QUICK_S} if quick else {}


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError(seconds)


def _bytes(count: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"
