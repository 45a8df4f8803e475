"""Older spellings are read, mean what they meant, and leave all else as it is."""

import numpy as np
import pytest
from places import DATA

from tvm_iree_ext.mlir.reading.older_spellings import SPELLINGS, up_to_date
from tvm_iree_ext.mlir.reading.reader import read
from tvm_iree_ext.reference import winograd

OLDER = DATA / "older"
EXAMPLES = ["attention", "custom_op", "im2col", "pack", "sort", "transfer_gather"]


@pytest.fixture(scope="module")
def program(built):
    return built((OLDER / "dialects.mlir").read_text())


@pytest.fixture
def rng(request):
    return np.random.default_rng(len(request.node.name))


def floats(rng, *shape):
    return rng.standard_normal(shape).astype("f4")


def integers(rng, *shape):
    return rng.integers(-50, 50, shape).astype("i4")


def test_each_spelling_has_an_example():
    text = (OLDER / "dialects.mlir").read_text()
    refused = {"iree_linalg_ext.reverse"}
    alike = {"iree_vector_ext.arg_compare", "iree_vector_ext.transfer_scatter"}
    assert [name for name in SPELLINGS if name not in text] == sorted(
        {*refused, *alike, "iree_linalg_ext.custom_op"}
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_pages_examples_are_read(name):
    module = read(OLDER / f"{name}.mlir")
    lines = (OLDER / f"{name}.mlir").read_text().splitlines()
    for function in module.operations:
        for operation in function.block().operations:
            line = lines[operation.location.line - 1]
            assert operation.name.rpartition(".")[2] in line


def attended(q, k, v):
    scores = 0.5 * q @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


def test_attention(program, rng):
    q, k, v = floats(rng, 2, 5, 8), floats(rng, 2, 7, 8), floats(rng, 2, 7, 4)
    want = attended(q, k, v)
    for name, *given in (
        ("attention", q, k, v),
        ("attention_without_maps", q, k, np.swapaxes(v, 1, 2)),
    ):
        (came,) = program(*given, function=name)
        np.testing.assert_allclose(came, want, rtol=1e-4, atol=1e-5)
    for name in ("attention_without_scale_map", "attention_generic"):
        (came,) = program(q[0], k[0], v[0], function=name)
        np.testing.assert_allclose(came, want[0], rtol=1e-4, atol=1e-5)
    out, _, total = program(q[0], k[0], v[0], function="online_attention")
    np.testing.assert_allclose(out / total[:, None], want[0], rtol=1e-4, atol=1e-5)


def test_orders_and_reductions(program, rng):
    x, s = integers(rng, 3, 6), floats(rng, 4, 9)
    want = -np.sort(-x, 1)
    for name in ("sort", "sort_generic"):
        np.testing.assert_array_equal(program(x, function=name)[0], want)
    np.testing.assert_array_equal(program(x, function="topk")[0], want[:, :2])
    np.testing.assert_array_equal(program(x, function="arg_compare")[0], x.argmax(1))
    np.testing.assert_array_equal(program(x, function="scan")[0], np.cumsum(x, 1))
    weights = np.exp2(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(program(s, function="exp_reduction")[0], weights.sum(1), rtol=1e-4)


def test_scatters_and_gathers(program, rng):
    x, u = integers(rng, 3, 6), integers(rng, 4, 6)
    at = np.array([[2], [0], [2], [1]], "i4")
    want = x.copy()
    np.add.at(want, at[:, 0], u)
    for name in ("scatter", "scatter_generic"):
        np.testing.assert_array_equal(program(u, at, x, function=name)[0], want)
    both = np.hstack([at, at + 3])
    want = x.copy()
    np.add.at(want, tuple(both.T), u[:, 0])
    (came,) = program(u[:, 0].copy(), both, x, function="scatter_first_dims")
    np.testing.assert_array_equal(came, want)
    (came,) = program(x, at[:, 0].copy(), function="gather")
    np.testing.assert_array_equal(came, x[at[:, 0]])
    for name in ("map_scatter", "map_gather"):
        np.testing.assert_array_equal(program(x, function=name)[0], x.T)


def test_vectors(program, rng):
    x, rows, tile = floats(rng, 6, 5, 4), np.array([2, 0, 3]), floats(rng, 16, 16)
    (came,) = program(x, rows, function="transfer_gather")
    np.testing.assert_array_equal(came, x[1, 1 + rows])
    (came,) = program(x, rows, function="transfer_gather_of_loops")
    np.testing.assert_array_equal(came, x[0, rows].T)
    mask = rng.integers(0, 2, (3, 4)) > 0
    (came,) = program(x[:, 0].copy(), rows, mask, function="transfer_gather_masked")
    np.testing.assert_array_equal(came, np.where(mask, x[rows, 0], np.float32(7)))
    np.testing.assert_array_equal(program(tile, function="to_layout")[0], tile)


def test_packs(program, rng):
    x, ragged = floats(rng, 6, 8), floats(rng, 5, 7)
    packed = x.reshape(2, 3, 4, 2).transpose(0, 2, 1, 3).copy()
    padded = np.pad(ragged, [(0, 1), (0, 1)], constant_values=-1)
    padded = padded.reshape(2, 3, 4, 2).transpose(0, 2, 1, 3)
    (came,) = program(x, function="pack")
    np.testing.assert_array_equal(came, packed.transpose(1, 0, 2, 3))
    for name in ("pack_padded", "pack_generic"):
        np.testing.assert_array_equal(program(ragged, function=name)[0], padded)
    np.testing.assert_array_equal(program(packed, function="unpack")[0], x)
    np.testing.assert_array_equal(program(x, function="pack_of_tensor")[0], x)


def windows(x):
    """Those of 3x3 of an image, flat."""
    found = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2)).transpose(0, 1, 2, 4, 5, 3)
    return found.reshape(len(x), -1, 9 * x.shape[3])


def test_im2col(program, built, rng):
    x, image = floats(rng, 2, 6, 5, 3), floats(rng, 2, 10, 9, 4)
    (came,) = program(x, function="im2col_without_strides")
    np.testing.assert_array_equal(came, windows(x))
    (came,) = program(x, function="im2col_of_dims")
    np.testing.assert_array_equal(came.reshape(2, 12, 27), windows(x))
    example = built((OLDER / "im2col.mlir").read_text())
    whole = windows(image)
    (came,) = example(image, np.zeros((2, 56, 36), "f4"), function="whole")
    np.testing.assert_array_equal(came, whole)
    (came,) = example(image, np.int64(21), np.zeros((2, 7, 12), "f4"), function="tile")
    np.testing.assert_array_equal(came, whole[:, 21:28, 12:24])


def test_winograd(program, rng):
    a, k = floats(rng, 1, 10, 10, 2), floats(rng, 3, 3, 2, 4)
    tiles = winograd.input_transform(a, r=6, channels_last=True)
    (came,) = program(a, function="winograd_input")
    np.testing.assert_allclose(came, tiles, rtol=1e-3, atol=1e-3)
    (came,) = program(k, function="winograd_filter")
    np.testing.assert_allclose(
        came, winograd.filter_transform(k, r=6, channels_last=True), 1e-3, 1e-4
    )
    (came,) = program(tiles.astype("f4"), function="winograd_output")
    want = winograd.output_transform(tiles, r=6, channels_last=True)
    np.testing.assert_allclose(came, want, rtol=1e-2, atol=0.3)


def test_fft(program, rng):
    x = floats(rng, 2, 2, 2)
    for came, part in zip(program(*x, function="fft_generic"), x, strict=True):
        want = np.stack([part.sum(1), part[:, 0] - part[:, 1]], 1)
        np.testing.assert_allclose(came, want, rtol=1e-5, atol=1e-6)


def test_custom_op_and_sort_of_the_pages(run, rng):
    x, w, o = floats(rng, 5, 12), floats(rng, 12, 20), floats(rng, 5, 20)
    (came,) = run((OLDER / "custom_op.mlir").read_text(), x, w, o)
    np.testing.assert_allclose(came, x @ w + o, rtol=1e-4, atol=1e-4)
    keys, values = floats(rng, 4, 6), integers(rng, 4, 6)
    first, second = run((OLDER / "sort.mlir").read_text(), keys, values)
    order = np.argsort(-keys, 1)
    np.testing.assert_array_equal(first, np.take_along_axis(keys, order, 1))
    np.testing.assert_array_equal(second, np.take_along_axis(values, order, 1))


SCATTER = """
func.func @f(%v: vector<3x4xf32>, %s: tensor<6x4xf32>, %i: vector<3xindex>) -> tensor<6x4xf32> {
  %c0 = arith.constant 0 : index
  %0 = iree_vector_ext.transfer_scatter %v into %s[%c0, %c0] [%i : vector<3xindex>] {
    indexing_maps = [affine_map<(d0, d1)[s0] -> (s0, d1)>, affine_map<(d0, d1)[s0] -> (d0)>]
  } : vector<3x4xf32>, tensor<6x4xf32> -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}
"""
COMPARE = """
func.func @f(%a: vector<4x9xf32>, %v: vector<4xf32>, %i: vector<4xi32>) -> vector<4xf32> {
  %0:2 = iree_vector_ext.arg_compare {dimension = 1 : i64} ins(%a : vector<4x9xf32>)
      inits(%v, %i : vector<4xf32>, vector<4xi32>) {
  ^bb0(%x: f32, %y: f32):
    %c = arith.cmpf olt, %x, %y : f32
    iree_vector_ext.yield %c : i1
  } -> vector<4xf32>, vector<4xi32>
  return %0#0 : vector<4xf32>
}
"""


@pytest.mark.parametrize("text", [SCATTER, COMPARE], ids=["transfer_scatter", "arg_compare"])
def test_others_are_read(text):
    assert up_to_date(text.encode()).text is not None
    read(text)


def test_the_pages_attention_takes_its_scale_from_a_call(run, rng):
    q, k, v = floats(rng, 2, 5, 8), floats(rng, 2, 7, 8), floats(rng, 2, 7, 4)
    text = (OLDER / "attention.mlir").read_text()
    (got,) = run(text, q, k, v, np.float32(0.5), np.zeros((2, 5, 4), "f4"))
    np.testing.assert_allclose(got, attended(q, k, v), 1e-5, 1e-5)


def test_the_pages_pack_takes_its_padding_from_a_call_and_writes_memrefs(built, rng):
    program = built((OLDER / "pack.mlir").read_text())
    x, packed = floats(rng, 24, 40), np.zeros((3, 5, 8, 8), "f4")
    assert program(x, packed, function="pack_memref")[0] is packed
    np.testing.assert_array_equal(packed, x.reshape(3, 8, 5, 8).swapaxes(1, 2))
    x = floats(rng, 11, 9)
    (got,) = program(x, np.float32(3), np.zeros((3, 5, 4, 2), "f4"), function="pack_padded")
    want = np.pad(x, ((0, 1), (0, 1)), constant_values=3).reshape(3, 4, 5, 2).swapaxes(1, 2)
    np.testing.assert_array_equal(got, want)


def test_the_pages_transfer_gather_reads_a_memref(built, rng):
    program = built((OLDER / "transfer_gather.mlir").read_text())
    pages, rows = floats(rng, 64, 32, 8).astype("f2"), rng.integers(0, 32, 16)
    (got,) = program(pages, rows, np.float16(0))
    np.testing.assert_array_equal(got, pages[0, rows])
