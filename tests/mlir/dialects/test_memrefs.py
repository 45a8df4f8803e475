"""Functions over memrefs: what is written where, parts of memory, strides, what is refused."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import CallError, MlirError
from tvm_iree_ext.emulator.runs.emulated_programs import emulated_program
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.runtime.program import load
from tvm_iree_ext.simulator import simulate_program

COLUMNS = "memref<?x4xf32, strided<[?, 1], offset: ?>>"
ANY = "memref<?x?xf32, strided<[?, ?], offset: ?>>"
ADD = """linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]} ins(%x : X) outs(%y : Y) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }"""


def added(name, x, y):
    """``y += x`` on memrefs of these types."""
    return f"""
func.func @{name}(%x: {x}, %y: {y}) {{
  {ADD.replace("X", x, 1).replace("Y", y, 1)}
  return
}}
"""


TEXT = f"""
{added("whole", "memref<?x4xf32>", "memref<?x4xf32>")}
{added("strided", COLUMNS, ANY)}
{added("static", "memref<3x4xf32>", "memref<3x4xf32, strided<[8, 1], offset: 3>>")}
memref.global "private" constant @ones : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
func.func @parts(%x: memref<6x4xf32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c7 = arith.constant 7.0 : f32
  %row = memref.subview %x[%n, 0] [1, 4] [1, 1]
    : memref<6x4xf32> to memref<4xf32, strided<[1], offset: ?>>
  %ones = memref.get_global @ones : memref<4xf32>
  memref.copy %ones, %row : memref<4xf32> to memref<4xf32, strided<[1], offset: ?>>
  %line = memref.collapse_shape %x [[0, 1]] : memref<6x4xf32> into memref<24xf32>
  memref.store %c7, %line[%c0] : memref<24xf32>
  %open = memref.cast %x : memref<6x4xf32> to memref<?x4xf32>
  %last = memref.load %open[%n, %c0] : memref<?x4xf32>
  %turned = memref.transpose %x (i, j) -> (j, i)
    : memref<6x4xf32> to memref<4x6xf32, strided<[1, 4]>>
  %corner = memref.subview %turned[2, 4] [2, 2] [1, 1]
    : memref<4x6xf32, strided<[1, 4]>> to memref<2x2xf32, strided<[1, 4], offset: 18>>
  linalg.fill ins(%last : f32) outs(%corner : memref<2x2xf32, strided<[1, 4], offset: 18>>)
  %other = memref.reinterpret_cast %x to offset: [1], sizes: [2], strides: [3]
    : memref<6x4xf32> to memref<2xf32, strided<[3], offset: 1>>
  linalg.fill ins(%c7 : f32) outs(%other : memref<2xf32, strided<[3], offset: 1>>)
  return
}}
func.func @mixed(%x: tensor<4xf32>, %y: memref<4xf32>) -> (tensor<4xf32>, f32) {{
  %c1 = arith.constant 1 : index
  %old = bufferization.to_tensor %y restrict : memref<4xf32> to tensor<4xf32>
  %sum = arith.addf %x, %old : tensor<4xf32>
  bufferization.materialize_in_destination %x in writable %y : (tensor<4xf32>, memref<4xf32>) -> ()
  %one = memref.load %y[%c1] : memref<4xf32>
  return %sum, %one : tensor<4xf32>, f32
}}
func.func private @negate(%x: memref<?xf32>, %y: memref<?xf32>) {{
  linalg.map {{ arith.negf }} ins(%x : memref<?xf32>) outs(%y : memref<?xf32>)
  return
}}
func.func @calls(%x: memref<?xf32>) -> memref<?xf32> {{
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %own = memref.alloc(%n) : memref<?xf32>
  func.call @negate(%x, %own) : (memref<?xf32>, memref<?xf32>) -> ()
  func.call @negate(%own, %x) : (memref<?xf32>, memref<?xf32>) -> ()
  return %own : memref<?xf32>
}}
func.func @complex(%x: memref<3xcomplex<f32>>, %y: memref<3xcomplex<f32>>) {{
  linalg.map {{ complex.neg }} ins(%x : memref<3xcomplex<f32>>) outs(%y : memref<3xcomplex<f32>>)
  return
}}
func.func @gathered(%x: memref<4xf32>, %i: memref<8xi32>, %y: memref<8xf32>) {{
  linalg.generic {{indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
                  iterator_types = ["parallel"]}}
    ins(%i : memref<8xi32>) outs(%y : memref<8xf32>) {{
  ^bb0(%a: i32, %b: f32):
    %at = arith.index_cast %a : i32 to index
    %0 = memref.load %x[%at] : memref<4xf32>
    linalg.yield %0 : f32
  }}
  return
}}
"""


@pytest.fixture(scope="module")
def program(built):
    return built(TEXT).built


def random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def test_a_call_writes_and_gives_what_it_was_given(program):
    x, y = random(3, 4), random(4, 4)[1:]
    want = x + y
    assert program["whole"](x, y) is y
    np.testing.assert_array_equal(y, want)
    with pytest.raises(CallError, match="arg0 shares memory with arg1, into which a result"):
        program["whole"](y, y)
    frozen = x.copy()
    frozen.flags.writeable = False
    with pytest.raises(CallError, match="whole: arg1 is read-only"):
        program["whole"](x, frozen)
    np.testing.assert_array_equal(y, want)


def test_what_is_stored_is_the_only_memory_taken(program):
    assert program.resources["memory"]["static"]["planned"] == 3 * 4 * 4  # a sum, before it lies


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_strided_arrays_lie_as_they_are(program, order):
    x, y = random(3, 9)[:, 2:6], random(6, 8).transpose(order)[::2, 1:5][:3]
    want = x + y
    around = y.base.sum() - y.sum()
    assert program["strided"](x, y) is y
    np.testing.assert_array_equal(y, want)
    assert abs(y.base.sum() - y.sum() - around) < 1e-4


def test_halves_of_an_array_are_apart(program):
    both = random(3, 8)
    want = both[:, :4] + both[:, 4:]
    program["strided"](both[:, :4], both[:, 4:])
    np.testing.assert_array_equal(both[:, 4:], want)
    with pytest.raises(CallError, match="shares memory with arg1"):
        program["strided"](both[:, 1:5], both[:, 4:])


def test_memory_that_is_copied_is_apart_too(program):
    c = np.arange(8).astype("complex64")
    for x, y in ((c[:3], c[2:5]), (c[2:5], c[:3]), (c[:6:2], c[2:5])):
        with pytest.raises(CallError, match="complex: arg0 shares memory with arg1, into which"):
            program["complex"](x, y)
    twice = np.lib.stride_tricks.as_strided(c, (3,), (0,))
    with pytest.raises(
        CallError, match=r"complex: arg1 has strides of \[0\] bytes for \[3\], whose"
    ):
        program["complex"](c[5:], twice)
    np.testing.assert_array_equal(c, np.arange(8))
    program["complex"](c[:6:2], c[1:6:2])  # elements between one another's
    np.testing.assert_array_equal(c, [0, -0, 2, -2, 4, -4, 6, 7])
    torch = pytest.importorskip("torch")
    columns = torch.arange(24.0).reshape(3, 8)
    program["whole"](columns[:, :4], columns[:, 4:])
    assert columns[0].tolist() == [0, 1, 2, 3, 4, 6, 8, 10]
    with pytest.raises(CallError, match="whole: arg0 shares memory with arg1"):
        program["whole"](columns[:, 1:5], columns[:, 4:])


def test_other_strides_are_refused(program):
    x, y = random(3, 4), np.zeros((3, 16), "f4")
    program["static"](x, np.zeros((3, 8), "f4")[:, 2:6])
    wrong = [
        (y[:, :4], r"static: arg1 has strides \[16, 1\]; expected \[8, 1\], in elements"),
        (np.zeros((3, 8), "f8")[:, :4], "static: arg1 is float64; expected float32"),
        (np.zeros((2, 8), "f4")[:, :4], "static: arg1 axis 0 has extent 2; expected 3"),
        (np.zeros(3, "f4"), "static: arg1 has rank 1; expected 2"),
        ([[1.0]], "static: arg1 is a list; expected a NumPy array, PyTorch tensor or CuPy"),
    ]
    for array, said in wrong:
        with pytest.raises(CallError, match=said):
            program["static"](x, array)
    with pytest.raises(CallError, match=r"arg1 has strides \[4, -1\]; expected \[\?, \?\], from 0"):
        program["strided"](x, random(3, 4)[:, ::-1])
    one = np.lib.stride_tricks.as_strided(np.zeros(6, "f4"), (3, 4), (4, 4))
    with pytest.raises(
        CallError, match=r"strides of \[4, 4\] bytes for \[3, 4\], whose elements are not"
    ):
        program["strided"](x, one)


def test_tensors_of_pytorch_lie_as_they_are(program):
    torch = pytest.importorskip("torch")
    x, y = torch.ones(3, 9)[:, 2:6], torch.arange(24.0).reshape(4, 6).T[1:4]
    want = x + y
    assert program["strided"](x, y) is y
    assert torch.equal(y, want)
    a = torch.zeros(3, 4)
    assert program["whole"](x, a) is a
    assert torch.equal(a, torch.ones(3, 4))


def test_parts_of_memory(program):
    x = random(6, 4)
    want = x.copy()
    want[2] = [1, 2, 3, 4]
    want[0, 0] = 7
    want[4:, 2:] = want[2, 0]
    want.reshape(-1)[[1, 4]] = 7
    program["parts"](x, 2)
    np.testing.assert_array_equal(x, want)


def test_what_was_read_stays_what_it_was(program):
    x, y = random(4), random(4) + 1
    want = x + y
    came, one, written = program["mixed"](x, y)
    np.testing.assert_array_equal(came, want)
    assert written is y
    assert one == x[1]
    np.testing.assert_array_equal(y, x)


def test_calls_write_what_they_are_given(program):
    x = random(5)
    before = x.copy()
    own, same = program["calls"](x)
    assert same is x
    np.testing.assert_array_equal(own, -before)
    np.testing.assert_array_equal(x, before)


def test_complex_numbers_and_elements_in_regions(program):
    x, y = np.arange(3) * (1 + 2j), np.zeros(3, "complex64")
    assert program["complex"](x.astype("complex64"), y) is y
    np.testing.assert_array_equal(y, -x)
    a, out = random(4), np.zeros(8, "f4")
    indices = np.arange(8, dtype="i4") % 4
    program["gathered"](a, indices, out)
    np.testing.assert_array_equal(out, a[indices])


@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_kernels_of_gpus_write_there(imported, target):
    own = imported(TEXT, only=["strided", "whole"])
    x, y = random(3, 9)[:, 2:6], random(6, 8)[::2, 1:5]
    done = simulate_program(own, target, [x, y], "strided").check()
    np.testing.assert_array_equal(done.results[0], x + y)
    assert len(done.simulations) == 2  # the sum, and where it lies
    x, y = random(3, 4), random(3, 5)[:, :4]
    done = simulate_program(own, target, [x, y], "whole").check()
    np.testing.assert_array_equal(done.results[0], x + y)
    assert len(done.simulations) == 1  # which reads and writes what it is given


def test_a_gpu_writes_what_is_strided(imported, tmp_path):
    build_program(imported(TEXT, only=["strided", "complex"]), "rocm:gfx942", folder=tmp_path / "p")
    on_gpu = emulated_program(tmp_path / "p")
    x, y = random(3, 9)[:, 2:6], random(6, 8)[::2, 1:5]
    before, want = y.base.copy(), x + y
    assert on_gpu["strided"](x, y) is y
    np.testing.assert_array_equal(y, want)
    before[::2, 1:5] = want
    np.testing.assert_array_equal(y.base, before)
    x, y = (np.arange(3) * (1 + 2j)).astype("complex64"), np.zeros(3, "complex64")
    assert on_gpu["complex"](x, y) is y
    np.testing.assert_array_equal(y, -x)


def test_an_artifact_writes_too(program, tmp_path):
    loaded = load(program.export(tmp_path / "exported"))
    x, y = random(3, 9)[:, 2:6], random(6, 8)[::2, 1:5]
    want = x + y
    assert loaded["strided"](x, y) is y
    np.testing.assert_array_equal(y, want)
    assert loaded["strided"].signature == program["strided"].signature


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("memref<4x8xf32, affine_map<(i, j) -> (j, i)>>", "its layout is no offset and strides"),
        ("memref<4xf32, 3>", "its memory space is 3 : i64, which is no caller's"),
        ("memref<4xmemref<4xf32>>", "its elements are memref<4xf32>"),
        (
            "memref<4xcomplex<f32>, strided<[2]>>",
            r"memref<4xcomplex<f32>, strided<\[2\]>>; complex numbers are contiguous",
        ),
        ("memref<4xvector<2xf32>>", r"memref<4xvector<2xf32>>: its elements are vector<2xf32>"),
        (
            "memref<4xf32, strided<[-1], offset: 3>>",
            r"arg0 is of the type memref<4xf32, strided<\[-1\], offset: 3>>; strides of arguments",
        ),
        ("memref<*xf32>", "arg0 is of the type memref<.xf32>; functions take ranked"),
    ],
)
def test_other_memory_is_refused(imported, kind, said):
    with pytest.raises(MlirError, match=said):
        imported(f"func.func @f(%x: {kind}) {{ return }}")


def test_memory_that_is_the_callers_is_not_returned(imported):
    with pytest.raises(MlirError, match="returns arg0, or a part of it, which is the caller's"):
        imported("func.func @f(%x: memref<4xf32>) -> memref<4xf32> { return %x : memref<4xf32> }")


@pytest.mark.parametrize(("offset", "stride", "reach"), [(0, 3, "0 to 8"), (2, -2, "-2 to 4")])
def test_parts_past_their_memory_are_refused(imported, offset, stride, reach):
    kind = f"memref<3x3xf32, strided<[{stride}, 1], offset: {offset}>>"
    with pytest.raises(MlirError, match=f"reinterpret_cast: of elements {reach} of memory of 6"):
        imported(f"""
func.func @f(%x: memref<6xf32>) {{
  %0 = memref.reinterpret_cast %x to offset: [{offset}], sizes: [3, 3], strides: [{stride}, 1]
    : memref<6xf32> to {kind}
  return
}}
""")


def test_constants_are_not_written(imported):
    with pytest.raises(MlirError, match=r"6:3: memref\.store: writes @g, which is constant"):
        imported("""
memref.global "private" constant @g : memref<f32> = dense<1.0>
func.func @f(%x: f32) {
  %g = memref.get_global @g : memref<f32>

  memref.store %x, %g[] : memref<f32>
  return
}
""")
