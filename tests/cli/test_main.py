"""What holds for all commands: statuses, complaints in one line, and a quick start."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.cli import main as cli

START = [sys.executable, "-m", "tvm_iree_ext.cli.main"]


@pytest.fixture
def raising(command, monkeypatch):
    """``raising(error)``: a command in which that is raised."""

    def run(error):
        def fail(args):
            raise error

        monkeypatch.setattr("tvm_iree_ext.cli.list.run_list", fail)
        return command("list")

    return run


def test_names_its_version_and_those_of_tvm(command):
    done = command("--version")
    assert done.status == 0
    assert done.out.startswith("tvm-iree-ext ")
    assert "apache-tvm-ffi 0.1.14" in done.out


def test_lists_its_commands(command):
    done = command("--help")
    assert done.status == 0
    for name in ("doctor", "list", "build", "verify", "layout"):
        assert f"    {name} " in done.out
        assert "usage: tvm-iree-ext " + name in command(name, "--help").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["frob"], "invalid choice: 'frob'"),
        (["list", "attention"], "unrecognized arguments: attention"),
        (["build", "attention", "--frob"], "unrecognized arguments: --frob"),
        (["build", "attention"], "attention: missing a required argument: 'query'; operands are"),
        (
            ["build", "sort", "8xf32", "8xf32"],
            "sort: missing a required argument: 'dimension'; operands are",
        ),
        (["build", "sort", "--set", "size=3"], "sort: no attribute 'size'; there are "),
    ],
)
def test_a_wrong_command_line_is_status_2(command, arguments, message):
    done = command(*arguments)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OpError("attention: no"), "attention: no"),
        (
            ModuleNotFoundError("No module named 'tvm'"),
            "No module named 'tvm'; 'tvm-iree-ext doctor' says what is missing",
        ),
        (PermissionError(13, "Permission denied", "/there"), "Permission denied: /there"),
    ],
)
def test_a_refusal_is_one_line_and_status_1(raising, error, message):
    done = raising(error)
    assert (done.status, done.out) == (1, "")
    assert done.err == f"tvm-iree-ext: {message}\n"


def test_a_bug_is_not_hidden(raising):
    with pytest.raises(ZeroDivisionError):
        raising(ZeroDivisionError())


def test_ctrl_c_is_one_line_and_status_130(raising):
    done = raising(KeyboardInterrupt())
    assert (done.status, done.err) == (130, "tvm-iree-ext: interrupted\n")


def real_run(folder, **how):
    """A command that has begun to check kernels, whose temporary files are in a folder."""
    process = subprocess.Popen(
        [*START, "verify", "--cases", "500"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how
    )  # fmt: skip
    end = time.monotonic() + 60
    while not list(folder.glob(".tvm_iree_ext-*")):
        assert time.monotonic() < end, "no temporary folder: the run has not begun"
        time.sleep(0.1)
    return process


def test_ctrl_c_ends_a_real_run_and_its_processes(tmp_path):
    process = real_run(tmp_path, start_new_session=True)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)  # until the last process has closed its end
    assert (process.returncode, err) == (130, "tvm-iree-ext: interrupted\n")


def test_sigterm_ends_a_real_run_and_leaves_nothing(tmp_path):
    process = real_run(tmp_path)
    process.terminate()
    _, err = process.communicate(timeout=300)  # until the last process has closed its end
    assert (process.returncode, err) == (143, "tvm-iree-ext: ended by SIGTERM\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("shell", "message"),
    [
        ("{} >&-", "standard output is closed; send it to /dev/null where none is wanted"),
        ("{} >/dev/full", "No space left on device"),
        ("mkdir d; cd d; rmdir ../d; {}", "the working directory was deleted; change to another"),
    ],
    ids=["closed", "full", "deleted"],
)
def test_a_place_that_is_gone_is_one_line_and_status_1(tmp_path, shell, message):
    command = f"{sys.executable} -m tvm_iree_ext.cli.main list"
    done = subprocess.run(
        ["bash", "-c", shell.format(command)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"tvm-iree-ext: {message}")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m tvm_iree_ext.cli.main list | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("141\n", "")


@pytest.mark.costly
@pytest.mark.parametrize(
    "arguments",
    [["list"], ["--help"], ["build", "attention", "--help-op"], ["records", "--help"]],
    ids=" ".join,
)
def test_starts_without_loading_tvm(arguments):
    code = f"""
import sys
from tvm_iree_ext.cli import main
try:
    status = main.main({arguments})
except SystemExit as stop:
    status = stop.code
loaded = {{"tvm", "tvm_ffi", "torch", "rich", "xgboost", "matplotlib"}} & set(sys.modules)
assert not status and not loaded, (status, loaded)
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_each_command_is_made_alone(command):
    """As when it is used; and 'COMMAND --help' says the same as in a parser of all."""
    for name in cli.COMMANDS:
        alone, among_all = (
            parser._subparsers._group_actions[0].choices for parser in
            (cli.command_parser([name]), cli.command_parser())
        )  # fmt: skip
        assert list(alone) == [name]
        assert alone[name].format_help() == among_all[name].format_help()


def test_the_installed_command_is_main(pyproject):
    assert pyproject["project"]["scripts"] == {cli.PROGRAM: "tvm_iree_ext.cli.main:main"}


def test_python_m_is_the_command(tmp_path):
    command = [sys.executable, "-I", "-m", "tvm_iree_ext", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.startswith("tvm-iree-ext ")


def test_the_log_is_shown_from_the_level_that_is_named(command, monkeypatch, caplog):
    monkeypatch.setenv(cli.LOG_VARIABLE, "debug")
    for _ in range(2):
        assert command("build", "sort", "8xf32", "--set", "dimension=0").status == 0
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert any(kind == "INFO" and "built in" in text and "sort" in text for kind, text in said)
    assert any(kind == "DEBUG" and "built before" in text for kind, text in said)
    monkeypatch.setenv(cli.LOG_VARIABLE, "debgu")
    done = command("list")
    assert (done.status, done.out) == (2, "")
    assert "TVM_IREE_EXT_LOG is 'debgu'; expected debug, info" in done.err
    assert "did you mean 'debug'?" in done.err


def test_tvm_says_nothing_of_its_own(monkeypatch, tmp_path, capfd):
    """It warns of a ROCm that no build needs, and of numbers that are known better here."""
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path))
    words = ["build", "sort", "8xf32", "--set", "dimension=0", "--target", "rocm:gfx942"]
    assert cli.main(words) == 0
    assert capfd.readouterr().err == ""
