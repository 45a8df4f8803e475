"""Numbers that only a run tells: operands of ops, and what their regions take from outside."""

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.mlir.importer import import_module
from tvm_iree_ext.mlir.reading.reader import read
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program

RNG = np.random.default_rng(0)
MAPS = (
    "affine_map<(b,m,n,k1,k2)->(b,m,k1)>,affine_map<(b,m,n,k1,k2)->(b,k2,k1)>,"
    "affine_map<(b,m,n,k1,k2)->(b,k2,n)>,affine_map<(b,m,n,k1,k2)->()>,"
    "affine_map<(b,m,n,k1,k2)->(b,m,n)>"
)
QKVO = "tensor<2x5x8x{0}>, tensor<2x7x8x{0}>, tensor<2x7x4x{0}>, {1}"


def attention(dtype, scale, body, arguments):
    given = QKVO.format(dtype, scale[0])
    return f"""
func.func @main(%q: tensor<2x5x8x{dtype}>, %k: tensor<2x7x8x{dtype}>, %v: tensor<2x7x4x{dtype}>,
    %o: tensor<2x5x4x{dtype}>, {arguments}) -> tensor<2x5x4x{dtype}> {{
  {scale[1]}
  %0 = iree_linalg_ext.attention <{{decomposition_config = {{}}, indexing_maps = [{MAPS}]}}>
    ins(%q, %k, %v, %scale : {given}) outs(%o : tensor<2x5x4x{dtype}>) {{
  ^bb0(%x: f32):
    {body}
  }} -> tensor<2x5x4x{dtype}>
  return %0 : tensor<2x5x4x{dtype}>
}}"""


def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def qkvo(dtype):
    shapes = (2, 5, 8), (2, 7, 8), (2, 7, 4), (2, 5, 4)
    return [RNG.standard_normal(shape).astype(dtype) for shape in shapes]


def check(text, arguments, want, folder, tolerance=1e-5, gpu="cuda:sm_80"):
    """On the CPU and a simulated GPU."""
    imported = import_module(read(text))
    got = build_program(imported, folder=folder)(*arguments)
    np.testing.assert_allclose(np.asarray(got, "float64"), want, tolerance, tolerance)
    (got,) = simulate_program(imported, gpu, list(arguments)).check().results
    np.testing.assert_allclose(got.astype("float64"), want, tolerance, tolerance)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_scale_of_attention(dtype, tmp_path):
    short = {"float16": "f16", "float32": "f32"}[dtype]
    scale = ("f32", "%scale = arith.mulf %s, %s : f32")
    text = attention(short, scale, "iree_linalg_ext.yield %x : f32", "%s: f32")
    q, k, v, o = qkvo(dtype)
    want = softmax(0.36 * np.einsum("bmk,bnk->bmn", *(x.astype("f8") for x in (q, k))))
    tolerance = 2e-3 if dtype == "float16" else 1e-5
    check(text, (q, k, v, o, np.float32(0.6)), want @ v.astype("f8"), tmp_path / "p", tolerance)


def test_a_number_in_the_region_of_attention(tmp_path):
    body = "%y = arith.addf %x, %c : f32\n    %z = arith.minimumf %y, %c : f32"
    body += "\n    iree_linalg_ext.yield %z : f32"
    scale = ("f32", "%scale = arith.constant 0.5 : f32\n  %c = tensor.extract %t[] : tensor<f32>")
    text = attention("f32", scale, body, "%t: tensor<f32>")
    # The scores are seen times log2(e), as IREE's decomposition has them.
    q, k, v, o = qkvo("float32")
    seen = 0.5 * np.log2(np.e) * np.einsum("bmk,bnk->bmn", q.astype("f8"), k.astype("f8"))
    scores = np.minimum(seen + 0.3, 0.3) * np.log(2)
    check(text, (q, k, v, o, np.array(0.3, "float32")), softmax(scores) @ v, tmp_path / "p")


def test_numbers_in_the_region_of_a_scatter(tmp_path):
    text = """
func.func @main(%u: tensor<30x3xf32>, %i: tensor<30x1xi32>, %o: tensor<4x3xf32>,
    %s: tensor<f32>, %n: i32) -> tensor<4x3xf32> {
  %al = tensor.extract %s[] : tensor<f32>
  %f = arith.sitofp %n : i32 to f32
  %0 = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
    ins(%u, %i : tensor<30x3xf32>, tensor<30x1xi32>) outs(%o : tensor<4x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %x = arith.mulf %a, %al : f32
    %y = arith.addf %b, %x : f32
    %z = arith.subf %y, %f : f32
    iree_linalg_ext.yield %z : f32
  } -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}"""
    u, o = RNG.standard_normal((30, 3)).astype("float32"), np.zeros((4, 3), "float32")
    i = RNG.integers(0, 4, (30, 1)).astype("int32")
    want = o.copy()
    for update, (place,) in zip(u, i, strict=True):
        want[place] += np.float32(0.5) * update - np.float32(2)
    arguments = (u, i, o, np.array(0.5, "float32"), np.int32(2))
    check(text, arguments, want, tmp_path / "p", gpu="rocm:gfx942")


def test_a_number_in_a_comparator(tmp_path):
    text = """
func.func @main(%a: tensor<20xi32>, %p: i32) -> tensor<20xi32> {
  %0 = iree_linalg_ext.sort dimension(0) outs(%a : tensor<20xi32>) {
  ^bb0(%x: i32, %y: i32):
    %m = arith.xori %x, %p : i32
    %n = arith.xori %y, %p : i32
    %c = arith.cmpi ult, %m, %n : i32
    iree_linalg_ext.yield %c : i1
  } -> tensor<20xi32>
  return %0 : tensor<20xi32>
}"""
    a = RNG.integers(-99, 99, 20).astype("int32")
    order = np.argsort((a ^ -7).astype("uint32"), kind="stable")
    check(text, (a, np.int32(-7)), a[order], tmp_path / "p")


def test_a_number_beside_what_could_be_a_key_of_a_sort(tmp_path):
    text = """
func.func @main(%a: tensor<20xf32>, %p: f32) -> tensor<20xf32> {
  %0 = iree_linalg_ext.sort dimension(0) outs(%a : tensor<20xf32>) {
  ^bb0(%x: f32, %y: f32):
    %e = math.exp %p : f32
    %m = math.absf %x : f32
    %n = math.absf %y : f32
    %s = arith.mulf %m, %e : f32
    %t = arith.mulf %n, %e : f32
    %c = arith.cmpf olt, %s, %t : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<20xf32>
  return %0 : tensor<20xf32>
}"""
    a = RNG.standard_normal(20).astype("float32")
    want = a[np.argsort(np.abs(a), kind="stable")]
    check(text, (a, np.float32(0.5)), want, tmp_path / "p", gpu="rocm:gfx942")


def test_a_number_in_the_region_of_a_scan(tmp_path):
    text = """
func.func @main(%a: tensor<3x20xf32>, %o: tensor<3x20xf32>, %i: tensor<3xf32>, %decay: f32)
    -> (tensor<3x20xf32>, tensor<3xf32>) {
  %0:2 = iree_linalg_ext.scan dimension(1) inclusive(true)
    ins(%a : tensor<3x20xf32>) outs(%o, %i : tensor<3x20xf32>, tensor<3xf32>) {
  ^bb0(%x: f32, %y: f32):
    %m = arith.mulf %x, %decay : f32
    %s = arith.addf %m, %y : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<3x20xf32>, tensor<3xf32>
  return %0#0, %0#1 : tensor<3x20xf32>, tensor<3xf32>
}"""
    a = RNG.standard_normal((3, 20)).astype("float32")
    want = a.astype("float64")
    for column in range(1, 20):
        want[:, column] += 0.5 * want[:, column - 1]
    program = build_program(import_module(read(text)), folder=tmp_path / "p")
    got, last = program(a, np.zeros_like(a), np.zeros(3, "float32"), np.float32(0.5))
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)
    np.testing.assert_array_equal(last, got[:, -1])


@pytest.mark.costly
@pytest.mark.parametrize(
    ("short", "dtype", "of"),
    [
        ("complex<f32>", "complex64", "complex"),
        ("complex<f64>", "complex128", "complex"),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn, "f"),
        ("i4", ml_dtypes.int4, "i"),
    ],
)
def test_a_number_of_words_in_the_region_of_a_scan(short, dtype, of, tmp_path):
    mul, add = (
        ("complex.mul", "complex.add") if of == "complex" else (f"arith.mul{of}", f"arith.add{of}")
    )
    text = f"""
func.func @main(%a: tensor<3x4x{short}>, %o: tensor<3x4x{short}>, %i: tensor<3x{short}>,
    %n: tensor<{short}>) -> tensor<3x4x{short}> {{
  %c = tensor.extract %n[] : tensor<{short}>
  %0:2 = iree_linalg_ext.scan dimension(1) inclusive(true)
    ins(%a : tensor<3x4x{short}>) outs(%o, %i : tensor<3x4x{short}>, tensor<3x{short}>) {{
  ^bb0(%x: {short}, %y: {short}):
    %m = {mul} %x, %c : {short}
    %s = {add} %m, %y : {short}
    iree_linalg_ext.yield %s : {short}
  }} -> tensor<3x4x{short}>, tensor<3x{short}>
  return %0#0 : tensor<3x4x{short}>
}}"""
    wide = dtype if of == "complex" else "float32" if of == "f" else "int8"
    a, c = RNG.integers(-1, 2, (3, 4)).astype(wide), np.asarray(2, wide)
    if of == "complex":
        a, c = a + 1j * a[::-1], c + np.asarray(1j, wide)
    want = a.copy()
    for column in range(1, 4):
        want[:, column] += c * want[:, column - 1]
        want = want.astype(dtype).astype(wide)
    passed = {"f": np.uint8, "i": np.int8}.get(of)

    def given(array):
        array = array.astype(dtype)
        return (
            array if passed is None else array.view(passed) if of == "f" else array.astype(passed)
        )

    arguments = [given(one) for one in (a, np.zeros_like(a), np.zeros(3, wide), c)]
    imported = import_module(read(text))
    first = build_program(imported, folder=tmp_path / "p")(*arguments)
    second = simulate_program(imported, "rocm:gfx942", arguments).check().results[0]
    for got in (first, second):
        np.testing.assert_array_equal(got, given(want))


def test_the_position_of_a_score(tmp_path):
    body = """%i = iree_linalg_ext.index 1 : index
    %j = iree_linalg_ext.index 4 : index
    %d = arith.subi %i, %j : index
    %n = arith.index_cast %d : index to i32
    %f = arith.sitofp %n : i32 to f32
    %y = arith.mulf %f, %c : f32
    %z = arith.addf %x, %y : f32
    iree_linalg_ext.yield %z : f32"""
    scale = ("f32", "%scale = arith.constant 0.5 : f32")
    text = attention("f32", scale, body, "%c: f32")
    q, k, v, o = qkvo("float32")
    seen = 0.5 * np.log2(np.e) * np.einsum("bmk,bnk->bmn", q.astype("f8"), k.astype("f8"))
    scores = (seen + 0.25 * (np.arange(5)[:, None] - np.arange(7))) * np.log(2)
    check(text, (q, k, v, o, np.float32(0.25)), softmax(scores) @ v, tmp_path / "p")


def test_numbers_in_the_region_of_an_exp_reduction(tmp_path):
    text = """
func.func @main(%s: tensor<4x50xf32>, %m: tensor<4xf32>, %t: tensor<4xf32>, %c: f32)
    -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = iree_linalg_ext.exp_reduction {
    indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>,
      affine_map<(m, k) -> (m)>],
    iterator_types = [#iree_linalg_ext.iterator_type<parallel>,
      #iree_linalg_ext.iterator_type<reduction>],
    exp_reduced_operands = [1]
  } ins(%s : tensor<4x50xf32>) outs(%m, %t : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%e: f32, %old: f32, %sum: f32):
    %w = arith.mulf %e, %c : f32
    %next = arith.addf %w, %sum : f32
    iree_linalg_ext.yield %old, %next : f32, f32
  } -> tensor<4xf32>, tensor<4xf32>
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}"""
    s = RNG.standard_normal((4, 50)).astype("float32")
    want = 3 * np.exp2(s.astype("f8") - s.max(1, keepdims=True)).sum(1)
    program = build_program(import_module(read(text)), folder=tmp_path / "p")
    lowest = np.full(4, np.finfo("f4").min)
    largest, total = program(s, lowest, np.zeros(4, "float32"), np.float32(3))
    np.testing.assert_array_equal(largest, s.max(1))
    np.testing.assert_allclose(total, want, 1e-5)


@pytest.mark.parametrize(
    ("scores", "largest", "total"), [("f64", "f32", "f32"), ("f32", "f64", "f32")]
)
def test_operands_of_an_exp_reduction_have_types_of_their_own(scores, largest, total, tmp_path):
    narrowed = "%w = arith.truncf %e : f64 to f32"
    weight, read_weight = ("%w", narrowed) if scores != total else ("%e", "")
    text = f"""
func.func @main(%s: tensor<4x50x{scores}>, %m: tensor<4x{largest}>, %t: tensor<4x{total}>)
    -> (tensor<4x{largest}>, tensor<4x{total}>) {{
  %0:2 = iree_linalg_ext.exp_reduction {{
    indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>,
      affine_map<(m, k) -> (m)>],
    iterator_types = [#iree_linalg_ext.iterator_type<parallel>,
      #iree_linalg_ext.iterator_type<reduction>],
    exp_reduced_operands = [1]
  }} ins(%s : tensor<4x50x{scores}>) outs(%m, %t : tensor<4x{largest}>, tensor<4x{total}>) {{
  ^bb0(%e: {scores}, %old: {largest}, %sum: {total}):
    {read_weight}
    %next = arith.addf {weight}, %sum : {total}
    iree_linalg_ext.yield %old, %next : {largest}, {total}
  }} -> tensor<4x{largest}>, tensor<4x{total}>
  return %0#0, %0#1 : tensor<4x{largest}>, tensor<4x{total}>
}}"""
    names = {"f32": "float32", "f64": "float64"}
    s = RNG.standard_normal((4, 50)).astype(names[scores])
    program = build_program(import_module(read(text)), folder=tmp_path / "p")
    inits = np.full(4, -9, names[largest]), np.zeros(4, names[total])
    most, sums = program(s, *inits)
    np.testing.assert_array_equal(most, s.max(1).astype(most.dtype))
    np.testing.assert_allclose(sums, np.exp2(s - s.max(1, keepdims=True)).sum(1), 1e-5)


def test_a_region_of_f32_over_scores_of_f64(tmp_path):
    text = attention(
        "f64",
        ("f64", "%scale = arith.constant 0.5 : f64"),
        "%y = math.tanh %x : f32\n    iree_linalg_ext.yield %y : f32",
        "%unused: f64",
    )
    q, k, v = (RNG.standard_normal(shape) for shape in ((2, 5, 8), (2, 7, 8), (2, 7, 4)))
    scores = np.tanh(0.5 * np.log2(np.e) * q @ k.transpose(0, 2, 1)) * np.log(2)
    program = build_program(import_module(read(text)), folder=tmp_path / "p")
    found = program(q, k, v, np.zeros((2, 5, 4)), 0.0)
    np.testing.assert_allclose(found, softmax(scores) @ v, atol=1e-6)


def test_numbers_in_the_region_of_a_custom_op(tmp_path):
    text = """
func.func @main(%x: tensor<8xf32>, %o: tensor<8xf32>, %c: f32) -> tensor<8xf32> {
  %0 = iree_linalg_ext.custom_op {
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = [#iree_linalg_ext.iterator_type<parallel>]
  } ins(%x : tensor<8xf32>) outs(%o : tensor<8xf32>) {
  ^bb0(%a: tensor<?xf32>, %b: tensor<?xf32>):
    %1 = linalg.generic {
      indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]
    } ins(%a : tensor<?xf32>) outs(%b : tensor<?xf32>) {
    ^bb1(%e: f32, %f: f32):
      %m = arith.mulf %e, %c : f32
      linalg.yield %m : f32
    } -> tensor<?xf32>
    iree_linalg_ext.yield %1 : tensor<?xf32>
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
    x = RNG.standard_normal(8).astype("float32")
    check(text, (x, np.zeros_like(x), np.float32(3)), x * np.float32(3), tmp_path / "p")


@pytest.mark.parametrize(("short", "dtype"), [("f32", "float32"), ("f16", "float16")])
def test_numbers_in_the_region_of_a_map_load(short, dtype, tmp_path):
    text = f"""
func.func @main(%s: tensor<9x5x{short}>, %o: tensor<5x9x{short}>, %n: index, %p: {short})
    -> tensor<5x9x{short}> {{
  %0 = iree_linalg_ext.map_load %s into %o {{
  ^bb0(%i: index, %j: index):
    %k = arith.addi %j, %n : index
    iree_linalg_ext.yield %k, %i, %p : index, index, {short}
  }} : tensor<9x5x{short}> into tensor<5x9x{short}> -> tensor<5x9x{short}>
  return %0 : tensor<5x9x{short}>
}}"""
    s = RNG.standard_normal((9, 5)).astype(dtype)
    p = np.array(-2.5, dtype)
    want = np.concatenate([s[2:], np.full((2, 5), p)]).T
    check(text, (s, np.zeros_like(want), 2, p[()]), want, tmp_path / "p", gpu="rocm:gfx942")


def test_numbers_in_the_region_of_a_map_store(tmp_path):
    text = """
func.func @main(%s: tensor<9xi8>, %o: tensor<12xi8>, %n: index, %m: index) -> tensor<12xi8> {
  %0 = iree_linalg_ext.map_store %s into %o {
  ^bb0(%i: index):
    %k = arith.addi %i, %n : index
    %c = arith.cmpi slt, %i, %m : index
    iree_linalg_ext.yield %k, %c : index, i1
  } : tensor<9xi8> into tensor<12xi8> -> tensor<12xi8>
  return %0 : tensor<12xi8>
}"""
    s, o = np.arange(9, dtype="int8"), np.full(12, -1, "int8")
    want = o.copy()
    want[2:8] = s[:6]
    check(text, (s, o, 2, 6), want, tmp_path / "p")


def test_the_padding_of_a_pack(tmp_path):
    text = """
func.func @main(%x: tensor<11x9xf32>, %pad: f32, %out: tensor<3x5x4x2xf32>)
    -> tensor<3x5x4x2xf32> {
  %q = arith.addf %pad, %pad : f32
  %0 = linalg.pack %x padding_value(%q : f32) inner_dims_pos = [0, 1] inner_tiles = [4, 2]
    into %out : tensor<11x9xf32> -> tensor<3x5x4x2xf32>
  return %0 : tensor<3x5x4x2xf32>
}"""
    x = RNG.standard_normal((11, 9)).astype("float32")
    want = np.pad(x, ((0, 1), (0, 1)), constant_values=3).reshape(3, 4, 5, 2).swapaxes(1, 2)
    check(text, (x, np.float32(1.5), np.zeros(want.shape, "float32")), want, tmp_path / "p")


@pytest.mark.parametrize(("short", "dtype"), [("f16", "float16"), ("i8", "int8")])
def test_the_padding_of_a_transfer(short, dtype, tmp_path):
    text = f"""
func.func @main(%base: tensor<64x32x8x{short}>, %rows: vector<16xindex>, %pad: {short})
    -> vector<16x8x{short}> {{
  %c0 = arith.constant 0 : index
  %0 = iree_vector_ext.transfer_gather %base[%c0, %c0, %c0] [%rows : vector<16xindex>], %pad <{{
    indexing_maps = [affine_map<(d0, d1)[s0] -> (0, s0, d1)>, affine_map<(d0, d1)[s0] -> (d0)>]
  }}> : tensor<64x32x8x{short}>, vector<16x8x{short}>
  return %0 : vector<16x8x{short}>
}}"""
    base = RNG.integers(-9, 9, (64, 32, 8)).astype(dtype)
    rows = np.array([0, 31, 32, 40, -1, *[3] * 11])
    inside = ((rows >= 0) & (rows < 32))[:, None]
    want = np.where(inside, base[0, rows.clip(0, 31)], np.array(-7, dtype))
    arguments = base, rows, np.array(-7, dtype)[()]
    check(text, arguments, want, tmp_path / "p", gpu="rocm:gfx942")


def test_the_complex_padding_of_pack(tmp_path):
    text = """
func.func @main(%x: tensor<11xcomplex<f32>>, %pad: complex<f32>, %out: tensor<3x4xcomplex<f32>>)
    -> tensor<3x4xcomplex<f32>> {
  %0 = linalg.pack %x padding_value(%pad : complex<f32>) inner_dims_pos = [0] inner_tiles = [4]
    into %out : tensor<11xcomplex<f32>> -> tensor<3x4xcomplex<f32>>
  return %0 : tensor<3x4xcomplex<f32>>
}"""
    x = (np.arange(11) * (1 - 2j)).astype("complex64")
    program = build_program(import_module(read(text)), folder=tmp_path / "p")
    got = program(x, np.complex64(3 + 4j), np.zeros((3, 4), "complex64"))
    np.testing.assert_array_equal(got.ravel(), [*x, np.complex64(3 + 4j)])


CEILDIV = "affine.apply affine_map<()[s0, s1] -> (s0 ceildiv s1)>()[%m, %t]"


@pytest.mark.parametrize("counted", ["arith.ceildivui %m, %t : index", CEILDIV])
def test_tiles_as_long_as_another_tensor(counted, tmp_path):
    text = f"""
func.func @main(%x: tensor<?x7xf32>, %like: tensor<?xf32>) -> tensor<?x4x?x2xf32> {{
  %pad = arith.constant -1.0 : f32
  %c0 = arith.constant 0 : index
  %t = tensor.dim %like, %c0 : tensor<?xf32>
  %m = tensor.dim %x, %c0 : tensor<?x7xf32>
  %n = {counted}
  %o = tensor.empty(%n, %t) : tensor<?x4x?x2xf32>
  %0 = linalg.pack %x padding_value(%pad : f32) inner_dims_pos = [0, 1] inner_tiles = [%t, 2]
    into %o : tensor<?x7xf32> -> tensor<?x4x?x2xf32>
  return %0 : tensor<?x4x?x2xf32>
}}"""
    x = RNG.standard_normal((13, 7)).astype("float32")
    padded = np.pad(x, [(0, 2), (0, 1)], constant_values=-1)
    want = padded.reshape(3, 5, 4, 2).transpose(0, 2, 1, 3)
    check(text, (x, np.zeros(5, "float32")), want, tmp_path / "p", tolerance=0)


def test_an_extent_by_an_extent(tmp_path):
    text = """
func.func @main(%a: tensor<?xi32>, %b: tensor<?xi32>) -> (index, index, index) {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %a, %c0 : tensor<?xi32>
  %n = tensor.dim %b, %c0 : tensor<?xi32>
  %q = arith.divui %m, %n : index
  %c = arith.ceildivsi %m, %n : index
  %r = arith.remui %m, %n : index
  return %q, %c, %r : index, index, index
}"""
    program = build_program(import_module(read(text)), folder=tmp_path / "p")
    for m, n in ((7, 3), (6, 3), (0, 4), (5, 0)):
        got = [int(one) for one in program(np.zeros(m, "int32"), np.zeros(n, "int32"))]
        assert got == ([m // n, -(-m // n), m % n] if n else [-1, -1, m])


def test_tiles_as_long_as_a_call_says(tmp_path):
    text = """
func.func @main(%x: tensor<?x7xf32>, %t: index) -> (tensor<?x?x?x2xf32>, tensor<?x7xf32>) {
  %pad = arith.constant -1.0 : f32
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %m = tensor.dim %x, %c0 : tensor<?x7xf32>
  %n = arith.ceildivui %m, %t : index
  %o = tensor.empty(%n, %c4, %t) : tensor<?x?x?x2xf32>
  %0 = linalg.pack %x padding_value(%pad : f32) inner_dims_pos = [0, 1] inner_tiles = [%t, 2]
    into %o : tensor<?x7xf32> -> tensor<?x?x?x2xf32>
  %e = tensor.empty(%m) : tensor<?x7xf32>
  %1 = linalg.unpack %0 inner_dims_pos = [0, 1] inner_tiles = [%t, 2] into %e
    : tensor<?x?x?x2xf32> -> tensor<?x7xf32>
  return %0, %1 : tensor<?x?x?x2xf32>, tensor<?x7xf32>
}"""
    program = build_program(import_module(read(text)), folder=tmp_path / "p")
    x = RNG.standard_normal((13, 7)).astype("float32")
    for tile in (5, 13, 20):
        packed, back = program(x, np.int64(tile))
        padded = np.pad(x, [(0, -13 % tile), (0, 1)], constant_values=-1)
        want = padded.reshape(-1, tile, 4, 2).transpose(0, 2, 1, 3)
        np.testing.assert_array_equal(packed, want)
        np.testing.assert_array_equal(back, x)


def test_tiles_that_only_a_run_tells_are_the_packed_extents(tmp_path):
    text = """
func.func @main(%x: tensor<?x?x?x2xf32>, %t: index, %o: tensor<?x7xf32>) -> tensor<?x7xf32> {
  %0 = linalg.unpack %x inner_dims_pos = [0, 1] inner_tiles = [%t, 2] into %o
    : tensor<?x?x?x2xf32> -> tensor<?x7xf32>
  return %0 : tensor<?x7xf32>
}"""
    x = RNG.standard_normal((13, 7)).astype("float32")
    padded = np.pad(x, [(0, 2), (0, 1)])
    packed = np.ascontiguousarray(padded.reshape(3, 5, 4, 2).transpose(0, 2, 1, 3))
    arguments = packed, np.int64(5), np.zeros((13, 7), "float32")
    check(text, arguments, x, tmp_path / "p", tolerance=0, gpu="rocm:gfx942")
    # Of too few tiles nothing is read past the end.
    arguments = [packed[:2].copy(), *arguments[1:]]
    (got,) = simulate_program(import_module(read(text)), "cuda:sm_80", arguments).check().results
    np.testing.assert_array_equal(got[:10], x[:10])
