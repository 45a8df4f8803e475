"""Small kernels, built once, on which everything around a kernel is tried."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tvm
from tvm.script import tirx as T
from tvm.target import Target

from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.codegen.linker import compile_library
from tvm_iree_ext.runtime.artifact import LIBRARY, write
from tvm_iree_ext.runtime.kernel import load
from tvm_iree_ext.runtime.manifest import Manifest


@T.prim_func(s_tir=True)
def scale(x_handle: T.handle, factor: T.float32, y_handle: T.handle):
    T.func_attr({"global_symbol": "scale", "tirx.noalias": True})
    rows = T.int64()
    x = T.match_buffer(x_handle, (rows, 4), "float32", align=4)
    y = T.match_buffer(y_handle, (rows, 4), "float32", align=4)
    for row, column in T.grid(rows, 4):
        with T.sblock("scale"):
            vr, vc = T.axis.remap("SS", [row, column])
            y[vr, vc] = x[vr, vc] * factor


@T.prim_func(s_tir=True)
def row_sums(x_handle: T.handle, y_handle: T.handle):
    """Parallel, and with workspace: it needs the TVM runtime."""
    T.func_attr({"global_symbol": "row_sums", "tirx.noalias": True})
    rows = T.int64()
    columns = T.int64()
    x = T.match_buffer(x_handle, (rows, columns), "float32", align=4)
    y = T.match_buffer(y_handle, (rows,), "float32", align=4)
    for row in T.parallel(rows):
        with T.sblock("row"):
            vr = T.axis.spatial(rows, row)
            partial = T.sblock_alloc_buffer((1024,), "float32")
            for lane in T.serial(1024):
                partial[lane] = T.float32(0)
            for column in T.serial(columns):
                partial[column % T.int64(1024)] = partial[column % T.int64(1024)] + x[vr, column]
            y[vr] = T.float32(0)
            for lane in T.serial(1024):
                y[vr] = y[vr] + partial[lane]


@T.prim_func(s_tir=True)
def choose(
    x: T.Buffer((4,), "bfloat16", align=2),
    y: T.Buffer((4,), "bfloat16", align=2),
    mask: T.Buffer((4,), "bool", align=1),
    z: T.Buffer((4,), "bfloat16", align=2),
):
    T.func_attr({"global_symbol": "choose", "tirx.noalias": True})
    for element in T.serial(4):
        with T.sblock("choose"):
            ve = T.axis.spatial(4, element)
            z[ve] = T.if_then_else(mask[ve], x[ve], y[ve])


@T.prim_func(s_tir=True)
def shift(
    x: T.Buffer((3,), "int32", align=4),
    offset: T.int32,
    negate: T.bool,
    low: T.Buffer((3,), "int32", align=4),
    high: T.Buffer((3,), "int32", align=4),
):
    T.func_attr({"global_symbol": "shift", "tirx.noalias": True})
    for element in T.serial(3):
        with T.sblock("shift"):
            ve = T.axis.spatial(3, element)
            low[ve] = T.if_then_else(negate, offset - x[ve], x[ve] - offset)
            high[ve] = x[ve] + offset


@T.prim_func(s_tir=True)
def ones(y: T.Buffer((3,), "int32", align=4)):
    T.func_attr({"global_symbol": "ones", "tirx.noalias": True})
    for element in T.serial(3):
        with T.sblock("ones"):
            ve = T.axis.spatial(3, element)
            y[ve] = 1


SIGNATURES = {
    "ones": Signature((Operand("y", (3,), "int32", "result"),)),
    "scale": Signature(
        (
            Operand("x", ("rows", 4), "float32"),
            Operand("factor", (), "float32", "scalar"),
            Operand("y", ("rows", 4), "float32", "result"),
        )
    ),
    "row_sums": Signature(
        (
            Operand("x", ("rows", "columns"), "float32"),
            Operand("y", ("rows",), "float32", "result"),
        )
    ),
    "choose": Signature(
        (
            Operand("x", (4,), "bfloat16"),
            Operand("y", (4,), "bfloat16"),
            Operand("mask", (4,), "bool"),
            Operand("z", (4,), "bfloat16", "result"),
        )
    ),
    "shift": Signature(
        (
            Operand("x", (3,), "int32"),
            Operand("offset", (), "int32", "scalar"),
            Operand("negate", (), "bool", "scalar"),
            Operand("low", (3,), "int32", "result"),
            Operand("high", (3,), "int32", "result"),
        )
    ),
}
FUNCTIONS = {
    "ones": ones,
    "scale": scale,
    "row_sums": row_sums,
    "choose": choose,
    "shift": shift,
}


def build_toy(name: str, folder: Path, **target: str) -> Path:
    """Write the artifact of a toy kernel to ``folder``."""
    description = {"kind": "llvm", **target}
    manifest = Manifest(
        op=f"toy.{name}",
        entry=name,
        signature=SIGNATURES[name],
        attributes={},
        target=description,
        config={"tile": 4},
        provenance="given",
    )
    mod = tvm.IRModule({name: FUNCTIONS[name]})
    write(
        folder, manifest, lambda place: compile_library(mod, Target(description), place / LIBRARY)
    )
    return folder


@pytest.fixture(scope="session")
def build():
    """``build(name, folder, mtriple=...)``: the artifact of a toy kernel."""
    return build_toy


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory) -> SimpleNamespace:
    """The folders of the toy kernels, not to be changed."""
    root = tmp_path_factory.mktemp("toys")
    return SimpleNamespace(**{name: build_toy(name, root / name) for name in FUNCTIONS})


@pytest.fixture(scope="session")
def toys(artifacts) -> SimpleNamespace:
    """The toy kernels, loaded."""
    return SimpleNamespace(**{name: load(folder) for name, folder in vars(artifacts).items()})


@pytest.fixture
def python():
    """``python(code, *arguments, **environment)``: the output of a fresh interpreter."""

    def run(code: str, *arguments: object, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
