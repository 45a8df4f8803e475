"""A shell completes commands, options, ops, targets and files."""

import builtins
import subprocess

import pytest

from tvm_iree_ext.cli.completion import SHELLS


def completed(script, *words):
    """What bash offers for the last word."""
    listed = " ".join(f"'{word}'" for word in words)
    code = f"""
source {script}
COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}
_shtab_tvm_iree_ext
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_what_there_is(command, tmp_path, monkeypatch):
    pytest.importorskip("shtab")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "attentive.mlir").touch()
    script = tmp_path / "completion.bash"
    script.write_text(command("completion", "bash").out)
    assert completed(script, "tvm-iree-ext", "bui") == ["build"]
    assert completed(script, "tvm-iree-ext", "records", "sho") == ["show"]
    assert completed(script, "tvm-iree-ext", "build", "att") == ["attention", "attentive.mlir"]
    assert completed(script, "tvm-iree-ext", "build", "matmul", "--targ") == ["--target"]
    offered = completed(script, "tvm-iree-ext", "build", "matmul", "--target", "rocm:gfx9")
    assert "rocm:gfx942" in offered
    assert completed(script, "tvm-iree-ext", "tune", "--effort", "qu") == ["quick"]


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell(command, shell):
    pytest.importorskip("shtab")
    done = command("completion", shell)
    assert done.status == 0
    assert "tvm-iree-ext" in done.out
    assert "gpu-sweep" in done.out


def test_without_shtab_it_says_what_to_install(command, monkeypatch):
    usual = builtins.__import__

    def without(name, *rest):
        if name == "shtab":
            raise ImportError(name)
        return usual(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    done = command("completion", "bash")
    assert (done.status, done.out) == (1, "")
    assert "pip install 'tvm-iree-ext[completion]'" in done.err
