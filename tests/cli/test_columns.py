"""Nothing that a command prints is cut on a terminal of 80 columns."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from tvm_iree_ext.base.text_tables import width_of

CUT = "…"


def on_a_terminal(arguments, columns=80):
    """What a command writes to a terminal, and its status."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    command = [sys.executable, "-I", "-m", "tvm_iree_ext", *arguments]
    environment = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    process = subprocess.Popen(command, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    said = b""
    while True:
        try:
            piece = os.read(master, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        said += piece
    os.close(master)
    return process.wait(), said.decode()


@pytest.mark.costly
@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["--help"],
        ["records", "show", "--shipped", "--op", "scan"],
        ["doctor"],
        ["build", "attention", "--help-op"],
        ["build", "matmul", "8x8xf32", "8x8xf32"],
    ],
    ids=" ".join,
)
def test_nothing_is_cut_or_too_wide(arguments):
    status, said = on_a_terminal(arguments)
    assert status == 0, said
    assert said
    assert CUT not in said
    # A path, which somebody will copy, is in one piece.
    wide = [line for line in said.splitlines() if len(line) > 80]
    assert [line for line in wide if "/" not in line or len(line.split()) > 2] == []


def test_the_width_of_a_terminal_is_asked_for():
    code = (
        "import sys; from tvm_iree_ext.base.text_tables import width_of;print(width_of(sys.stdout))"
    )
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 72, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    subprocess.run([sys.executable, "-I", "-c", code], stdout=slave, env=environment, check=True)
    assert os.read(master, 100).split() == [b"72"]
    with open(os.devnull, "w") as file:
        assert width_of(file) == 140


def test_no_other_table_can_cut_its_cells(sources, root):
    """Those of rich do, where a terminal is narrow."""
    files = [*sources.values(), *(root / "scripts").glob("*.py")]
    code = {path: path.read_text("utf-8") for path in files if path.suffix == ".py"}
    assert [path for path, text in code.items() if "rich.table" in text or CUT in text] == []
