"""``tvm-iree-ext doctor``: what is installed here, and what to do about what is not."""

import argparse
import json

import tvm_iree_ext as ext
from tvm_iree_ext.base.wrapped_text import print_wrapped


def add_doctor(commands: argparse._SubParsersAction) -> None:
    """Add the command ``doctor``."""
    parser = commands.add_parser(
        "doctor",
        help="say what is installed here, and what to do about what is not",
        description="Look at Python, TVM, the processor, compilers, the kernel cache and optional"
        " packages. Exit status 1 when something is wrong that every kernel needs.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run_doctor)


def run_doctor(args: argparse.Namespace) -> int:
    """Print the findings."""
    findings = ext.doctor.examine()
    healthy = ext.doctor.is_healthy(findings)
    if args.json:
        data = {"healthy": healthy, "findings": [finding.to_json() for finding in findings]}
        print(json.dumps(data, indent=2))
        return 0 if healthy else 1
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        advice = f"; {finding.advice}" if finding.advice else ""
        label = f"{finding.state:<7}  {finding.name:<{width}}  "
        print_wrapped(f"{finding.value}{advice}", label)
    lacking = [f.name for f in findings if f.needed and f.state != "ok"]
    print(
        f"needed and not right: {', '.join(lacking)}" if lacking else "all that is needed is here"
    )
    return 0 if healthy else 1
