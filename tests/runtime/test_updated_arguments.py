"""What a caller gives and gets where results are in place of arguments."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.emulator.runs.emulated_programs import emulated_program
from tvm_iree_ext.mlir.from_file import import_program

TEXT = """
func.func @f(%x: tensor<1x4xf32>, %cache: tensor<8x4xf32> {iree.abi.output = 1 : index})
    -> (tensor<1x4xf32>, tensor<8x4xf32>) {
  %y = arith.addf %x, %x : tensor<1x4xf32>
  %new = tensor.insert_slice %y into %cache[2, 0] [1, 4] [1, 1]
    : tensor<1x4xf32> into tensor<8x4xf32>
  return %y, %new : tensor<1x4xf32>, tensor<8x4xf32>
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("updated") / "p"
    return ext.build_program(import_program(TEXT), folder=folder)


def given():
    rng = np.random.default_rng(0)
    return rng.random((1, 4), "float32"), rng.random((8, 4), "float32")


def wanted(x, cache):
    want = np.array(cache)
    want[2] = 2 * x
    return want


def test_an_array_that_does_not_lie_as_needed_is_updated_all_the_same(program):
    x, _ = given()
    cache = np.asfortranarray(given()[1])
    want = wanted(x, cache)
    assert program(x, cache)[1] is cache
    np.testing.assert_array_equal(cache, want)


def test_tensors_of_pytorch(program):
    torch = pytest.importorskip("torch")
    x, cache = map(torch.from_numpy, given())
    for own in (
        cache.clone(),
        cache.clone().t().contiguous().t(),
        torch.nn.Parameter(cache.clone()),
    ):
        want = wanted(x.numpy(), own.detach().numpy())
        with torch.no_grad():
            y, new = program(x, own)
        assert new is own
        assert type(y) is torch.Tensor
        np.testing.assert_array_equal(own.detach().numpy(), want)


def test_arrays_of_jax_stay_as_they_are(program):
    jnp = pytest.importorskip("jax.numpy")
    x, cache = map(jnp.asarray, given())
    before = np.array(cache)
    _, new = program(x, cache)
    np.testing.assert_array_equal(np.asarray(cache), before)
    np.testing.assert_array_equal(np.from_dlpack(new), wanted(np.asarray(x), before))
    address = new.data_ptr()
    _, again = program(x, new)  # is the program's own, and may be written
    assert again.data_ptr() == address


@pytest.mark.parametrize("way", ["overlap", "read-only", "out"])
def test_refuses_what_it_cannot_write(program, way):
    x, cache = given()
    before, named = cache.copy(), {}
    if way == "overlap":
        x = cache[2:3]
        said = "f: arg0 shares memory with arg1, into which a result is written"
    elif way == "read-only":
        cache.flags.writeable = False
        said = "f: arg1 is read-only, and a result is written into it; pass a copy"
    else:
        named["out"] = (np.empty_like(x), np.empty_like(cache))
        said = "f: out is not taken: results are written into arg1"
    with pytest.raises(CallError, match=said):
        program(x, cache, **named)
    np.testing.assert_array_equal(cache, before)


def test_arrays_of_the_host_go_to_a_gpu_and_come_back(tmp_path):
    folder = ext.build_program(import_program(TEXT), "rocm:gfx942", folder=tmp_path / "p").folder
    on_gpu = emulated_program(folder)
    x, whole = given()
    for cache in (whole.copy(), np.asfortranarray(whole)):
        y, same = on_gpu(x, cache)
        assert same is cache
        np.testing.assert_array_equal(y, 2 * x)
        np.testing.assert_array_equal(cache, wanted(x, whole))
