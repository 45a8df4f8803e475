"""IREE beside our kernels: right where it is installed, skipped by name where it is not."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from tvm_iree_ext import bench, ops
from tvm_iree_ext.bench.base.bench_case import Skipped
from tvm_iree_ext.bench.cases.arg_compare import arg_case
from tvm_iree_ext.bench.cases.attention import attention_case
from tvm_iree_ext.bench.cases.contraction import Product, contraction_case
from tvm_iree_ext.bench.cases.conv_2d import conv_2d_case
from tvm_iree_ext.bench.cases.scan import scan_case
from tvm_iree_ext.bench.cases.slices import gather_case, scatter_case
from tvm_iree_ext.bench.cases.sort import sort_case
from tvm_iree_ext.bench.cases.topk import topk_case
from tvm_iree_ext.bench.cases.transfer import embedding_case
from tvm_iree_ext.bench.peers.iree_peer import IREE, function, iree_peer

INSTALLED = "IREE is an optional peer: scripts/setup dev bench"
CASES = {
    "attention": lambda: attention_case(2, 16, 24, 16, "float32"),
    "matmul": lambda: contraction_case(Product("minus", 9, 8, 7, epilogue="minus")),
    "matmul_at_bf16": lambda: contraction_case(Product("at", 9, 8, 7, at=True, dtype="bfloat16")),
    "matmul_i8": lambda: contraction_case(Product("i8", 9, 8, 7, dtype="int8")),
    "matmul_bias_bt": lambda: contraction_case(
        Product("bias", 9, 8, 7, (2,), epilogue="bias_relu", bt=True)
    ),
    "conv": lambda: conv_2d_case("conv", (1, 9, 9, 3), (3, 3, 3, 4), strides=2, padding=1),
    "conv_nchw": lambda: conv_2d_case("conv", (1, 9, 9, 3), (3, 3, 3, 4), nchw=True, padding=1),
    "conv_bias": lambda: conv_2d_case("conv", (1, 9, 9, 3), (3, 3, 3, 4), fused="bias_relu"),
    "conv_bias_nchw": lambda: conv_2d_case(
        "conv", (1, 9, 9, 3), (3, 3, 3, 4), nchw=True, fused="bias_relu"
    ),
    "depthwise": lambda: conv_2d_case("conv", (1, 9, 9, 4), (3, 3, 1, 4), groups=4, padding=1),
    "embedding": lambda: embedding_case(5, 1000, 8),
    "argmax_line": lambda: arg_case((33,), 0),
    "argmin_columns": lambda: arg_case((5, 7), 0, "vector_argmin"),
    "scan_line": lambda: scan_case((33,), 0, inclusive=True),
    "scan_columns": lambda: scan_case((5, 7), 0, inclusive=False),
    "sort": lambda: sort_case("4096", (4096,), "float32"),
    "topk": lambda: topk_case(3, 40, 5),
    "gather": lambda: gather_case(5, 1000, 8),
    "scatter_set": lambda: scatter_case("rows", 5, 9, 4, "set", unique=True),
    "scatter_add": lambda: scatter_case("elems", 50, 9, 1, "add", unique=False),
}


def require(*packages):
    """The importer's extra has the compiler alone."""
    for package in packages:
        pytest.importorskip(f"iree.{package}", reason=INSTALLED)


def peer_of(case):
    (found,) = [peer for peer in case.peers if peer.library is IREE]
    return found


@pytest.mark.costly
@pytest.mark.parametrize("name", CASES)
def test_iree_is_right(name):
    require("compiler", "runtime")
    case = CASES[name]()
    values = case.operands()
    assert case.check(values)(peer_of(case).make(values)()) is None


@pytest.mark.costly
@pytest.mark.parametrize("name", ["dot_minus", "conv_minus"])
def test_all_compute_the_articles_programs(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_IREE_EXT_CACHE", str(tmp_path))
    (case,) = bench.select_cases("vector", name)
    values = case.operands()
    check = case.check(values)
    for peer in case.peers:
        try:
            peer.library.version()
            assert check(peer.make(values)()) is None
        except Skipped:
            continue
    assert check(np.zeros(case.op.signature.results[0].shape, np.float32))


def test_iree_follows_the_number_of_threads():
    require("compiler", "runtime")
    case = CASES["matmul"]()
    values = case.operands()
    check, call = case.check(values), peer_of(case).make(values)
    for threads in (1, 2, 1):
        with IREE.limit(threads):
            assert check(call()) is None


def test_what_iree_does_not_compile_is_skipped():
    require("compiler")
    op = ops.matmul((2, 2), (2, 2))
    values = {name: np.zeros((2, 2), np.float32) for name in ("lhs", "rhs")}
    with pytest.raises(Skipped, match=r"does not compile: .*nonsense"):
        iree_peer(op, "  nonsense.op").make(values)


def test_a_function_has_the_ops_operands_and_places_for_results():
    op = ops.matmul((2, 3), (3, 4))
    assert function(op, "  BODY").splitlines() == [
        "func.func @main(%lhs: tensor<2x3xf32>, %rhs: tensor<3x4xf32>, %place0: tensor<2x4xf32>"
        " {iree.abi.output = 0 : index}) -> (tensor<2x4xf32>) {",
        "  BODY",
        "}",
    ]


def test_a_result_in_place_has_its_operand_for_a_place():
    op = ops.scatter((2,), (2,), (4,))
    assert function(op, "").splitlines()[0] == (
        "func.func @main(%updates: tensor<2xf32>, %indices: tensor<2xi32>,"
        " %original: tensor<4xf32> {iree.abi.output = 0 : index}) -> (tensor<4xf32>) {"
    )


def test_without_iree_the_peer_is_skipped_by_name(monkeypatch):
    for name in ("iree", "iree.compiler", "iree.runtime"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Skipped, match="not installed"):
        IREE.version()
    with pytest.raises(Skipped, match="not installed"):
        dataclasses.replace(IREE, module="no_such_package.runtime").version()
    case = CASES["matmul"]()
    with pytest.raises(Skipped, match="needs iree-base-compiler"):
        peer_of(case).make(case.operands())


def test_importing_the_package_and_the_bench_does_not_import_iree():
    code = "import sys, tvm_iree_ext.bench; sys.exit('iree' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
