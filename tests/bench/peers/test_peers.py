"""Peers other than NumPy, PyTorch and IREE: right where installed, skipped by name where not."""

import sys

import pytest

from tvm_iree_ext import ops
from tvm_iree_ext.bench.base.bench_case import Skipped
from tvm_iree_ext.bench.cases.arg_compare import arg_case
from tvm_iree_ext.bench.cases.attention import attention_case, online_case
from tvm_iree_ext.bench.cases.contraction import Product, contraction_case
from tvm_iree_ext.bench.cases.conv_2d import conv_2d_case
from tvm_iree_ext.bench.cases.fft import transform_case
from tvm_iree_ext.bench.cases.im2col import im2col_case
from tvm_iree_ext.bench.cases.pack import pack_case, unpack_case
from tvm_iree_ext.bench.cases.scan import scan_case
from tvm_iree_ext.bench.cases.slices import gather_case, scatter_case
from tvm_iree_ext.bench.cases.sort import sort_case
from tvm_iree_ext.bench.cases.topk import topk_case
from tvm_iree_ext.bench.cases.winograd import winograd_case
from tvm_iree_ext.bench.peers.fftw import FFTW, SCIPY
from tvm_iree_ext.bench.peers.jax_peer import JAX
from tvm_iree_ext.bench.peers.onnx_runtime import ORT, ort_peer
from tvm_iree_ext.bench.peers.thread_setup import Opening

TAPS = (3, 3, 3, 4)
CASES = {
    "attention": lambda: attention_case(2, 16, 24, 16, "float32"),
    "attention_mask_f16": lambda: attention_case(2, 16, 16, 16, "float16", "mask"),
    "attention_causal": lambda: attention_case(2, 16, 16, 16, "float32", "causal"),
    "attention_bf16": lambda: attention_case(2, 16, 24, 16, "bfloat16"),
    "online": lambda: online_case(2, 24, 16),
    "matmul_minus": lambda: contraction_case(Product("", 9, 8, 7, epilogue="minus")),
    "matmul_bt": lambda: contraction_case(Product("", 9, 8, 7, epilogue="bias_relu", bt=True)),
    "matmul_at_bf16": lambda: contraction_case(Product("", 9, 8, 7, at=True, dtype="bfloat16")),
    "matmul_i8": lambda: contraction_case(Product("", 9, 8, 7, dtype="int8")),
    "conv_sub": lambda: conv_2d_case("", (1, 9, 9, 3), TAPS, fused="sub", strides=2),
    "conv_nchw": lambda: conv_2d_case("", (1, 9, 9, 3), TAPS, nchw=True, fused="bias_relu"),
    "depthwise": lambda: conv_2d_case("", (1, 9, 9, 4), (3, 3, 1, 4), groups=4, padding=1),
    "fft": lambda: transform_case((3, 30), "forward", -1),
    "rfft": lambda: transform_case((3, 32), "real_to_complex", -1),
    "scan_line": lambda: scan_case((33,), 0, inclusive=True),
    "scan_line_exclusive": lambda: scan_case((33,), 0, inclusive=False),
    "scan_columns": lambda: scan_case((5, 7), 0, inclusive=False),
    "sort": lambda: sort_case("rows", (3, 40), "int32"),
    "sort_kv": lambda: sort_case("rows", (3, 40), "float32", values=True),
    "sort_magnitude": lambda: sort_case("line", (40,), "float32", region="abs(arg0) <= abs(arg1)"),
    "topk": lambda: topk_case(3, 40, 5),
    "argmax": lambda: arg_case((5, 7), 0),
    "argmin": lambda: arg_case((33,), 0, "vector_argmin"),
    "scatter_set": lambda: scatter_case("rows", 5, 9, 4, "set", unique=True),
    "scatter_add": lambda: scatter_case("rows", 5, 9, 4, "add", unique=True),
    "scatter_dup": lambda: scatter_case("elems", 50, 9, 1, "add", unique=False),
    "gather": lambda: gather_case(5, 1000, 8),
    "im2col": lambda: im2col_case((1, 7, 6, 5), 3),
    "im2col_nchw": lambda: im2col_case((1, 5, 7, 6), 3, nchw=True),
    "pack": lambda: pack_case((13, 33), (4, 8)),
    "unpack": lambda: unpack_case((13, 33), (4, 8), transposed=True),
    "wino_input": lambda: winograd_case("", ops.winograd_input_transform((1, 15, 14, 5))),
    "wino_input_nchw": lambda: winograd_case(
        "", ops.winograd_input_transform((1, 5, 15, 14), image_dimensions=(2, 3))
    ),
    "wino_filter": lambda: winograd_case("", ops.winograd_filter_transform((3, 3, 5, 7))),
    "wino_output": lambda: winograd_case("", ops.winograd_output_transform((8, 8, 1, 2, 3, 5))),
}
INTERPRETED = (JAX, ORT, SCIPY, FFTW)  # what torch.compile takes seconds for is left to the bench


@pytest.mark.costly
@pytest.mark.parametrize("name", CASES)
def test_peers_are_right(name):
    case = CASES[name]()
    values = case.operands()
    check = case.check(values)
    peers = [peer for peer in case.peers if peer.library in INTERPRETED]
    assert peers
    missing = []
    for peer in peers:
        try:
            peer.library.version()
        except Skipped:
            missing.append(peer.name)
            continue
        assert check(peer.make(values)()) is None, peer.name
    if len(missing) == len(peers):
        pytest.skip(f"optional peers, {', '.join(missing)}: scripts/setup dev bench")


@pytest.mark.parametrize("library", [JAX, ORT], ids=lambda library: library.name)
def test_a_peer_follows_the_number_of_threads(library):
    case = CASES["matmul_minus"]()
    pytest.importorskip(library.package, reason="an optional peer: scripts/setup dev bench")
    values = case.operands()
    (peer,) = [peer for peer in case.peers if peer.library is library]
    check, call = case.check(values), peer.make(values)
    for threads in (1, 2, 1):
        with library.limit(threads):
            assert check(call()) is None


def test_a_call_is_set_up_anew_only_for_another_number_of_threads():
    opening, log = Opening(), []

    def set_up(threads):
        log.append(threads)
        return lambda: threads

    call = opening.call(set_up)
    assert (call(), call()) == (1, 1)
    with opening.limit(2):
        assert (call(), call()) == (2, 2)
    assert call() == 1
    assert log == [1, 2, 1]


def test_what_onnx_runtime_does_not_run_is_skipped():
    pytest.importorskip("onnxruntime", reason="an optional peer: scripts/setup dev bench")
    pytest.importorskip("onnx", reason="an optional peer: scripts/setup dev bench")
    shape = (1, 1, 2, 4)
    op = ops.attention(shape, shape, shape, dtype="bfloat16")
    with pytest.raises(Skipped, match=r"does not run this: .*NOT_IMPLEMENTED"):
        ort_peer(op, "  output = Attention (query, key, value)").make({})()


@pytest.mark.parametrize("library", [JAX, ORT, SCIPY, FFTW], ids=lambda library: library.name)
def test_a_peer_that_is_not_installed_is_skipped_by_name(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library.module or library.package, None)
    with pytest.raises(Skipped, match="not installed"):
        library.version()
