import importlib.util
import shutil
import sys

import pytest
import tvm
from tvm.script import tirx as T
from tvm.target import Target

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen import linker
from tvm_iree_ext.runtime.machine import is_this_machine, library_machine, this_machine

HOST = Target({"kind": "llvm"})
ARM = "aarch64-linux-gnu"


@T.prim_func(s_tir=True)
def copy(x: T.Buffer((4,), "float32", align=4), y: T.Buffer((4,), "float32", align=4)):
    T.func_attr({"global_symbol": "copy", "tirx.noalias": True})
    for element in T.serial(4):
        with T.sblock("copy"):
            ve = T.axis.spatial(4, element)
            y[ve] = T.exp(x[ve])


MOD = tvm.IRModule({"copy": copy})


@pytest.fixture
def no_tools(monkeypatch):
    """A machine with neither compiler nor linker."""
    find_spec = importlib.util.find_spec
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ziglang" else find_spec(name)
    )


def test_reports_what_the_library_takes(tmp_path):
    resources = linker.compile_library(MOD, HOST, tmp_path / "kernel.so")
    library = (tmp_path / "kernel.so").read_bytes()
    assert resources["library_bytes"] == len(library)
    assert 0 < resources["code_bytes"] < len(library)
    assert resources["needs_runtime"] is False
    assert library_machine(library) == this_machine()


@pytest.mark.skipif(this_machine() != "x86_64", reason="links for x86-64 with this compiler")
def test_features_are_those_of_the_target_and_not_of_this_machine(tmp_path):
    target = Target({"kind": "llvm", "mcpu": "znver4", "mtriple": "x86_64-linux-gnu"})
    features = linker.compile_library(MOD, target, tmp_path / "kernel.so")["cpu_features"]
    assert {"avx2", "fma", "avx512f", "avx512bf16"} <= set(features)


def test_knows_this_machine_by_its_triples():
    assert is_this_machine("")
    assert is_this_machine(f"{this_machine()}-conda-linux-gnu")
    assert not is_this_machine(f"{this_machine()}-apple-darwin")
    assert not is_this_machine("riscv64-linux-gnu")


def test_the_compiler_of_the_environment_comes_first(monkeypatch):
    monkeypatch.setenv("CC", f"{sys.executable} -m wrapped")
    assert linker.find_linker()[:3] == [sys.executable, "-m", "wrapped"]


def test_says_what_to_install_where_nothing_links(no_tools, tmp_path):
    message = "no linker for this machine: looked for cc, gcc, clang, ld.lld and ziglang; install"
    with pytest.raises(BuildError, match=message):
        linker.compile_library(MOD, HOST, tmp_path / "kernel.so")
    message = rf"no linker for {ARM}: .*: pip install ziglang, or apt install gcc-aarch64-linux-gnu"
    with pytest.raises(BuildError, match=message):
        linker.find_linker(ARM)


def test_refuses_to_link_for_what_is_not_linux():
    with pytest.raises(BuildError, match="cannot link for arm64-apple-ios: cross-building is for"):
        linker.find_linker("arm64-apple-ios")


def test_a_failing_linker_is_quoted(monkeypatch, tmp_path):
    monkeypatch.setattr(
        linker, "find_linker", lambda triple: [sys.executable, "-c", "raise SystemExit('full')"]
    )
    with pytest.raises(BuildError, match=r"python\S* failed with status 1: full"):
        linker.compile_library(MOD, HOST, tmp_path / "kernel.so")
    assert not (tmp_path / "kernel.so").exists()


def test_what_tvm_refuses_is_named(tmp_path):
    @T.prim_func(s_tir=True)
    def unbound(x: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "unbound"})
        for element in T.thread_binding(4, "threadIdx.x"):
            with T.sblock("x"):
                ve = T.axis.spatial(4, element)
                x[ve] = T.float32(0)

    with pytest.raises(BuildError, match=r"TVM cannot compile unbound for .*llvm"):
        linker.compile_library(tvm.IRModule({"unbound": unbound}), HOST, tmp_path / "kernel.so")


@pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="needs ziglang (pip install ziglang)"
)
def test_ziglang_alone_links_for_any_linux(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    for arch, triple in [("aarch64", ARM), ("x86_64", "x86_64-linux-gnu")]:
        path = tmp_path / arch
        linker.compile_library(MOD, Target({"kind": "llvm", "mtriple": triple}), path)
        assert library_machine(path.read_bytes()) == arch
