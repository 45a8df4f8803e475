"""``tvm-iree-ext``: see what is here; build, import, run, verify and draw from a shell.

Exit status: 0 done, 1 the request cannot be met, 2 the command line is wrong, 130 interrupted.
"""

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Sequence

from tvm_iree_ext.cli.bench import add_bench
from tvm_iree_ext.cli.build import add_build
from tvm_iree_ext.cli.doctor import add_doctor
from tvm_iree_ext.cli.fleet import add_fleet
from tvm_iree_ext.cli.fuzz import add_fuzz
from tvm_iree_ext.cli.gpu_sweep import add_gpu_sweep
from tvm_iree_ext.cli.gpu_table import add_gpu_table
from tvm_iree_ext.cli.inspect import add_inspect
from tvm_iree_ext.cli.layout import add_layout
from tvm_iree_ext.cli.list import add_list
from tvm_iree_ext.cli.programs import add_check_programs, add_import, add_run, add_run_checks
from tvm_iree_ext.cli.records import add_records
from tvm_iree_ext.cli.simulate import add_simulate
from tvm_iree_ext.cli.tune import add_tune
from tvm_iree_ext.cli.vector_stages import add_vector_stages
from tvm_iree_ext.cli.verify import add_verify
from tvm_iree_ext.errors import ExtError

PROGRAM = "tvm-iree-ext"
_PACKAGES = ("tvm-iree-ext", "apache-tvm", "apache-tvm-ffi")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    args = _parse(_parser(), argv)
    try:
        status = args.run(args)
        sys.stdout.flush()
        return status or 0
    except ExtError as error:
        return _complain(str(error))
    except ImportError as error:
        return _complain(f"{error}; '{PROGRAM} doctor' says what is missing")
    except BrokenPipeError:  # as when piped into head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # what a shell gives a program that SIGPIPE ended
    except OSError as error:
        return _complain(f"{error.strerror or error}: {error.filename}")
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return 130


def _complain(message: str) -> int:
    print(f"{PROGRAM}: {message}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="IREE's LinalgExt and VectorExt ops on Apache TVM."
    )
    parser.add_argument("--version", action="version", version=_versions())
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (
        add_doctor,
        add_list,
        add_build,
        add_import,
        add_run,
        add_run_checks,
        add_check_programs,
        add_verify,
        add_fuzz,
        add_bench,
        add_tune,
        add_records,
        add_fleet,
        add_layout,
        add_inspect,
        add_gpu_table,
        add_gpu_sweep,
        add_simulate,
        add_vector_stages,
    ):
        add(commands)
    return parser


def _parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; operands may also stand behind options, which argparse does not take."""
    args, rest = parser.parse_known_args(argv)
    if rest and (not hasattr(args, "operands") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        args.operands = [*args.operands, *rest]
    return args


def _versions() -> str:
    found = []
    for package in _PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


if __name__ == "__main__":
    sys.exit(main())
