"""``tvm-iree-ext``: see what is here; build, import, run, verify and draw from a shell.

Exit status: 0 done, 1 the request cannot be met, 2 the command line is wrong, 130 interrupted,
143 ended by SIGTERM.
"""

import argparse
import contextlib
import importlib.metadata
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.cli.bench import add_bench
from tvm_iree_ext.cli.build import add_build
from tvm_iree_ext.cli.doctor import add_doctor
from tvm_iree_ext.cli.emulate import add_emulate
from tvm_iree_ext.cli.fleet import add_fleet
from tvm_iree_ext.cli.fuzz import add_fuzz
from tvm_iree_ext.cli.gpu_day import add_gpu_day
from tvm_iree_ext.cli.gpu_sweep import add_gpu_sweep
from tvm_iree_ext.cli.gpu_table import add_gpu_table
from tvm_iree_ext.cli.inspect import add_inspect
from tvm_iree_ext.cli.layout import add_layout
from tvm_iree_ext.cli.list import add_list
from tvm_iree_ext.cli.operands import UsageError
from tvm_iree_ext.cli.profile import add_profile
from tvm_iree_ext.cli.programs import add_check_programs, add_import, add_run, add_run_checks
from tvm_iree_ext.cli.records import add_records
from tvm_iree_ext.cli.simulate import add_simulate
from tvm_iree_ext.cli.tune import add_tune
from tvm_iree_ext.cli.vector_stages import add_vector_stages
from tvm_iree_ext.cli.verify import add_verify

PROGRAM = "tvm-iree-ext"
_PACKAGES = ("tvm-iree-ext", "apache-tvm", "apache-tvm-ffi")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    args = _parse(_parser(), argv)
    if sys.stdout is None:
        return _complain("standard output is closed; send it to /dev/null where none is wanted")
    try:
        os.getcwd()  # without one neither TVM nor PyTorch can be imported
    except FileNotFoundError:
        return _complain("the working directory was deleted; change to another one")
    signals: list[int] = []
    try:
        with _sigterm_interrupts(signals):
            status = args.run(args)
            sys.stdout.flush()
        return status or 0
    except UsageError as error:
        return _complain(str(error), 2)
    except ExtError as error:
        return _complain(str(error))
    except ImportError as error:
        return _complain(f"{error}; '{PROGRAM} doctor' says what is missing")
    except BrokenPipeError:  # as when piped into head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # what a shell gives a program that SIGPIPE ended
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _complain(f"{error.strerror or error}{where}")
    except KeyboardInterrupt:
        if signals:
            return _complain("ended by SIGTERM", 128 + signal.SIGTERM)
        return _complain("interrupted", 130)


def _complain(message: str, status: int = 1) -> int:
    if sys.stderr is not None:  # a print to None goes to standard output
        print(f"{PROGRAM}: {message}", file=sys.stderr)
    return status


@contextlib.contextmanager
def _sigterm_interrupts(signals: list[int]) -> Iterator[None]:
    """Within the block the first SIGTERM does what Ctrl-C does, so that nothing is left behind.

    It is added to ``signals``; later ones are not heard.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def interrupt(number: int, _frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        signals.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


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
        add_profile,
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
        add_gpu_day,
        add_gpu_sweep,
        add_simulate,
        add_emulate,
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
