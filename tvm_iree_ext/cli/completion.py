"""``tvm-iree-ext completion``: what a shell needs to complete the command's words."""

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import ExtError

SHELLS = ("bash", "zsh", "tcsh")

_EPILOG = """\
for bash, once:  tvm-iree-ext completion bash > ~/.local/share/bash-completion/completions/tvm-iree-ext
for zsh, once:   tvm-iree-ext completion zsh > DIR/_tvm-iree-ext, DIR being one of $fpath
"""  # noqa: E501 - a line to be copied
_TARGETS = ("llvm", "cuda:sm_80", "cuda:sm_90a", "rocm:gfx90a", "rocm:gfx942", "rocm:gfx1100")


def add_completion(commands: argparse._SubParsersAction) -> None:
    """Add the command ``completion``."""
    parser = commands.add_parser(
        "completion",
        help="print what completes commands, options, ops, targets and files in a shell",
        description="Print a script by which a shell completes commands, options, ops, targets and"
        " files. It starts nothing; print it anew after an update.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run_completion)


def run_completion(args: argparse.Namespace) -> None:
    """Print the script.

    Raises:
        ExtError: where shtab, which writes it, is not installed.
    """
    from tvm_iree_ext.cli.main import command_parser

    try:
        import shtab
    except ImportError:
        raise ExtError(
            "completion is written by shtab: pip install 'tvm-iree-ext[completion]'"
        ) from None
    parser = command_parser()
    names = [*ext.registry.ENTRIES, *(name.partition(".")[2] for name in ext.registry.ENTRIES)]
    words = {"ops": (*names, "matmul"), "targets": _TARGETS}
    for action in _actions(parser):
        kind = _completed(action)
        if kind == "files":
            action.complete = shtab.FILE
        elif kind is not None:
            action.complete = _functions(kind)
    preamble = {shell: _preamble(shell, words) for shell in SHELLS}
    print(shtab.complete(parser, args.shell, preamble=preamble))


def _actions(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """All arguments, those of commands of commands, too."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
        else:
            yield action


def _completed(action: argparse.Action) -> str | None:
    """What an argument is completed by: its metavar says what it is."""
    metavar = str(action.metavar)
    if action.choices or action.nargs == 0:
        return None
    if action.dest == "op" or action.dest == "kernel":
        return "ops"
    if action.dest == "target":
        return "targets"
    is_file = any(word in metavar for word in ("FILE", "DIR", "FOLDER", "OUT.npz"))
    return "files" if is_file else None


def _functions(kind: str) -> dict[str, str]:
    return {"bash": f"_tvm_iree_ext_{kind}", "zsh": f"_tvm_iree_ext_{kind}", "tcsh": "f"}


def _preamble(shell: str, words: Mapping[str, Sequence[str]]) -> str:
    """The shell functions that complete a kind of words, and files beside ops."""
    lines = []
    for kind, known in words.items():
        listed = shlex.quote(" ".join(known))
        if shell == "bash":
            files = "; compgen -f -- $1" if kind == "ops" else ""
            lines.append(f"_tvm_iree_ext_{kind}() {{ compgen -W {listed} -- $1{files}; }}")
        elif shell == "zsh":
            files = "; _files" if kind == "ops" else ""
            plain = " ".join(shlex.quote(word) for word in known)
            lines.append(f"_tvm_iree_ext_{kind}() {{ compadd -- {plain}{files}; }}")
    return "\n".join(lines)
