"""Imports mutated programs of MLIR, and looks for what is neither a program nor a clear error.

    .venv/bin/python scripts/fuzz.py tests/data/ir tests/data/mlir --count 10000 --seed 1

Case I of a seed is the same text everywhere: --case I repeats it alone, --show prints it, --start I
goes on from it.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import tvm_iree_ext as ext


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="of .mlir files")
    parser.add_argument("--count", type=int, default=1000, help="cases (default: %(default)s)")
    parser.add_argument("--start", type=int, default=0, help="the first (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of them (default: %(default)s)")
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--show", action="store_true", help="print the texts instead")
    parser.add_argument("--build", action="store_true", help="build what is imported, too")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    args = parser.parse_args()
    paths = sorted(path for folder in args.folders for path in folder.glob("*.mlir"))
    texts = [path.read_text("utf-8") for path in paths]
    if not texts:
        parser.error("the folders have no .mlir file")
    indices = range(args.start, args.start + args.count) if args.case is None else [args.case]
    if args.show:
        for index in indices:
            print(ext.fuzz.case(args.seed, index, texts))
        return 0
    start, counts = time.monotonic(), Counter[str]()
    for finding in ext.fuzz.fuzz(texts, indices, args.seed, jobs=args.jobs, build=args.build):
        counts[finding.kind] += 1
        if finding.kind == "wrong":
            print(f"case {finding.index} of seed {args.seed}: {finding.message}", flush=True)
    seconds = time.monotonic() - start
    print(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())), f"in {seconds:.0f} s")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
