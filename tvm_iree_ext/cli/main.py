"""``tvm-iree-ext``: see what is here; build, import, run, verify and draw from a shell.

Exit status: 0 done, 1 the request cannot be met, 2 the command line is wrong, 130 interrupted,
143 ended by SIGTERM.
"""

import argparse
import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.base.suggestions import did_you_mean, near_file
from tvm_iree_ext.base.versions import RUNTIME, WHOLE, needed_pair
from tvm_iree_ext.cli.operands import UsageError
from tvm_iree_ext.cli.parser import CommandParser

PROGRAM = "tvm-iree-ext"
LOG_VARIABLE = "TVM_IREE_EXT_LOG"
_LEVELS = ("debug", "info", "warning", "error")

COMMANDS = {
    "doctor": "doctor",
    "list": "list",
    "build": "build",
    "import": "programs",
    "support": "support",
    "run": "run",
    "profile": "profile",
    "run-checks": "programs",
    "check-programs": "programs",
    "verify": "verify",
    "fuzz": "fuzz",
    "accuracy": "accuracy",
    "conformance": "conformance",
    "bench": "bench",
    "tune": "tune",
    "records": "records",
    "fleet": "fleet",
    "layout": "layout",
    "inspect": "inspect",
    "gpu-table": "gpu_table",
    "gpu-day": "gpu_day",
    "gpu-sweep": "gpu_sweep",
    "simulate": "simulate",
    "emulate": "emulate",
    "vector-stages": "vector_stages",
    "completion": "completion",
}
"""Each command, and the module here that has it: imported when the command is used."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] in COMMANDS and words[0] not in offered():
        return _complain(f"{words[0]} is no part of {RUNTIME}; it comes with {WHOLE}", 2)
    args = _parse(words)
    if sys.stdout is None:
        return _complain("standard output is closed; send it to /dev/null where none is wanted")
    try:
        os.getcwd()  # without one neither TVM nor PyTorch can be imported
    except FileNotFoundError:
        return _complain("the working directory was deleted; change to another one")
    signals: list[int] = []
    try:
        _show_log(os.environ.get(LOG_VARIABLE))
        with _sigterm_interrupts(signals):
            status = args.run(args)
            sys.stdout.flush()
        return status or 0
    except UsageError as error:
        return _complain(str(error), 2)
    except ExtError as error:
        return _complain(_with_file(str(error), words))
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


def _show_log(level: str | None) -> None:
    """Print what the package logs from a level on, where one is named."""
    if not level:
        return
    if level.lower() not in _LEVELS:
        hint = did_you_mean(level, _LEVELS)
        raise UsageError(f"{LOG_VARIABLE} is {level!r}; expected {', '.join(_LEVELS)}{hint}")
    import logging

    logging.basicConfig(format="%(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("tvm_iree_ext").setLevel(level.upper())


def _with_file(message: str, argv: Sequence[str]) -> str:
    """The message, and the file that was meant where it names one that is not there."""
    for word in argv:
        name = word.rpartition("=")[2] if word[:1] == "-" else word
        # Words such as ops and types are no files: those have a suffix, or a folder.
        is_path = os.sep in name or bool(os.path.splitext(name)[1])
        if is_path and name in message and "did you mean" not in message:
            return message + ("" if os.path.lexists(name) else near_file(name))
    return message


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


def offered() -> list[str]:
    """The commands whose modules are here: all of them, or those of a deployment."""
    here = {file.stem for file in Path(__file__).parent.glob("*.py")}
    return [name for name, module in COMMANDS.items() if module in here]


def command_parser(argv: Sequence[str] = ()) -> argparse.ArgumentParser:
    """A parser of all commands, or of the one that ``argv`` begins with: that is made sooner."""
    parser = CommandParser(
        prog=PROGRAM, description="IREE's LinalgExt and VectorExt ops on Apache TVM."
    )
    parser.add_argument("--version", action=_Versions, help="print versions, and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in argv[:1] if argv and argv[0] in COMMANDS else offered():
        module = importlib.import_module(f"tvm_iree_ext.cli.{COMMANDS[name]}")
        getattr(module, f"add_{name.replace('-', '_')}")(commands)
    return parser


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; operands may also stand behind options, which argparse does not take."""
    args, rest = command_parser(argv).parse_known_args(argv)
    if rest and (not hasattr(args, "operands") or any(word.startswith("-") for word in rest)):
        args.parser.error(args.parser.unrecognized(rest))
    if rest:
        args.operands = [*args.operands, *rest]
    return args


class _Versions(argparse.Action):
    """Print versions, which take a while to be found, and exit."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(_versions())
        parser.exit()


def _versions() -> str:
    import importlib.metadata  # longer to import than most commands take to start

    found = []
    for package in (WHOLE, RUNTIME, *needed_pair()):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            if package not in (WHOLE, RUNTIME):
                found.append(f"{package} not installed")
    return ", ".join(found)


if __name__ == "__main__":
    sys.exit(main())
