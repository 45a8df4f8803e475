"""``tvm-iree-ext verify``: kernels against examples with known results, and random ones."""

import argparse
import json

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.cli.parser import count_from
from tvm_iree_ext.cli.progress import bar

_COUNT = 20


def add_verify(commands: argparse._SubParsersAction) -> None:
    """Add the command ``verify``."""
    parser = commands.add_parser(
        "verify",
        help="build kernels, run them, and compare with what they must compute",
        description="Check kernels on random operands against the references, or with --examples"
        " against known results. The last line is 'N passed, M failed'; the exit status is 1 when"
        " any failed, or none ran.",
    )
    parser.add_argument("--examples", metavar="FILE", help="check the cases of this JSON file")
    parser.add_argument(
        "--op", metavar="NAME", action="append", help="only this op; may be repeated"
    )
    parser.add_argument(
        "--target",
        default="llvm",
        metavar="T",
        help="one that runs here, or with --simulate or --emulate a GPU (default: %(default)s)",
    )
    _add_checks(parser)
    parser.add_argument(
        "--cases",
        type=count_from(1),
        metavar="N",
        help=f"random cases per op (default: {_COUNT}, or none with --examples)",
    )
    parser.add_argument(
        "--seed", type=count_from(0), default=0, metavar="S", help="of them (default: %(default)s)"
    )
    parser.add_argument("--case", type=count_from(0), metavar="I", help="random case I alone")
    parser.add_argument(
        "--jobs",
        type=count_from(0),
        default=1,
        metavar="N",
        help="processes that build and run the cases, so that a crash is a failed case; 0: this"
        " process (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run_verify)


def _add_checks(parser: argparse.ArgumentParser) -> None:
    """How kernels run, and what of them is checked."""
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="run the kernels of a GPU, such as cuda:sm_80 or rocm:gfx942, on the simulator; races"
        " and the like are failures, and so is what does not compile",
    )
    parser.add_argument(
        "--emulate",
        action="store_true",
        help="execute the machine code of kernels for a GPU, such as rocm:gfx942, or the PTX of"
        " those for cuda:sm_80, launched as the artifact says; accesses outside of memory, missing"
        " waits and the like are failures",
    )
    parser.add_argument(
        "--no-compile",
        dest="compiled",
        action="store_false",
        help="with --simulate: do not compile what was simulated",
    )
    parser.add_argument(
        "--passes",
        action="store_true",
        help="check every access of kernels, after the schedule and after each pass that moves,"
        " shares or retypes storage; buffers begin as noise. Those of a GPU are simulated so, and"
        " not compiled",
    )
    parser.add_argument(
        "--guard",
        action="store_true",
        help="put arrays beside pages that cannot be touched, so that an access outside of one is a"
        " failure, which names it",
    )


def run_verify(args: argparse.Namespace) -> int:
    """Check, and print what failed, what is not supported, and the counts."""
    cases = []
    if args.examples is not None:
        cases += ext.verify.example_cases(args.examples, args.op)
    if args.examples is None or args.cases is not None or args.case is not None:
        cases += ext.verify.random_cases(args.op, args.cases or _COUNT, args.seed, args.case)
    results = []
    with bar("verify", len(cases)) as advance:
        how = {"simulate": args.simulate, "compiled": args.compiled, "passes": args.passes}
        how |= {"guard": args.guard, "emulate": args.emulate}
        for result in ext.verify.check(cases, args.target, **how, jobs=args.jobs):
            results.append(result)
            if result.status == "failed" and not args.json:
                print(f"FAILED {result.id}: {result.message}", flush=True)
            advance()
    report = ext.verify.CheckReport(tuple(results))
    if args.json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        for (op, message), count in report.unsupported.items():
            print(f"{op}: {message} ({count} {'case' if count == 1 else 'cases'})")
        print(report)
    if len(report.of("unsupported")) == len(results):
        raise OpError("verify: nothing was run, so nothing is known to be right")
    return 1 if report.of("failed") else 0
