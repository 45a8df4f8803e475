"""Complex operands of programs: two tensors inside, arrays of every kind outside."""

from dataclasses import replace

import numpy as np
import pytest
from relax_programs import Maker, normal, program

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.mlir.importing.imported import EntryPoint
from tvm_iree_ext.programs.program_build import build_program

PARTS = ("x.real", "x.imag", "factor.real", "factor.imag")


@pytest.fixture(scope="module")
def scaled(tmp_path_factory):
    """``x`` times the number ``factor``, and its real part."""
    m = Maker(**{name: (("n",) if name[0] == "x" else (), "float32") for name in PARTS})

    def make(emit):
        real = emit(
            m.nest(m.vars, ("n",), "float32", lambda r, i: r[0](i) * r[2]() - r[1](i) * r[3]())
        )
        imaginary = emit(
            m.nest(m.vars, ("n",), "float32", lambda r, i: r[0](i) * r[3]() + r[1](i) * r[2]())
        )
        return [real, imaginary, real]

    imported = program(m, make, [(("n",), "float32")] * 3)
    signature = Signature(
        (
            Operand("x", ("n",), "complex64"),
            Operand("factor", (), "complex64", "scalar"),
            Operand("product", ("n",), "complex64", "result"),
            Operand("real", ("n",), "float32", "result"),
        )
    )
    imported = replace(imported, functions=(EntryPoint("main", signature),))
    return build_program(imported, folder=tmp_path_factory.mktemp("built") / "scaled")


@pytest.fixture
def x():
    return (normal(9) + 1j * normal(9)).astype("complex64")


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="no PyTorch: scripts/setup dev bench installs it")


class OnlyDLPack:
    """An array of some library of which nothing but DLPack is known."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


def check(results, x, factor):
    product, real = results
    assert product.dtype == "complex64"
    np.testing.assert_allclose(product, x * factor, rtol=1e-5)
    np.testing.assert_array_equal(real, product.real)


def test_takes_numpy_arrays_and_numbers(scaled, x):
    check(scaled(x, 2 - 1j), x, 2 - 1j)
    check(scaled(x, np.complex64(3j)), x, 3j)
    check(scaled(x, 2), x, 2)
    check(scaled(x[::-2], 1j), x[::-2], 1j)
    x.flags.writeable = False
    check(scaled(x, 1j), x, 1j)


def test_gives_tensors_of_pytorch_for_them(scaled, x, torch):
    tensor = torch.from_numpy(x)
    for given, same in ((tensor, x), (tensor.conj(), x.conj()), (tensor[::2], x[::2])):
        product, real = scaled(given, 1j)
        assert (type(product), product.dtype) == (torch.Tensor, torch.complex64)
        assert (type(real), real.dtype) == (torch.Tensor, torch.float32)
        check((product.numpy(), real.numpy()), same, 1j)


def test_takes_and_gives_arrays_of_any_library_by_dlpack(scaled, x):
    product, real = scaled(OnlyDLPack(x), 1j)
    check((np.from_dlpack(product), np.from_dlpack(real)), x, 1j)


def test_refuses_what_kernels_refuse(scaled, x, torch):
    tensor = torch.from_numpy(x)
    grad = tensor.clone().requires_grad_()
    for given, message in (
        (np.ma.masked_array(x, mask=True), "x is a masked array; the kernel would ignore the mask"),
        (x.real, "x is float32; expected complex64"),
        (x.astype("complex128"), "x is complex128; expected complex64"),
        (x.astype(">c8"), "x is complex64 in foreign byte order"),
        (list(x), "x is a list; expected an array"),
        (OnlyDLPack(x.real), "x is float32; expected complex64"),
        (tensor.to("meta"), "x is on meta, where tensors have no elements"),
        (tensor.real, "x is float32; expected complex64"),
        (grad, "x requires grad, and a kernel has no backward pass"),
    ):
        with pytest.raises(CallError, match=message):
            scaled(given, 1j)
    with torch.no_grad():
        check([one.numpy() for one in scaled(grad, 1j)], x, 1j)
    for number in ("1", None, True, x):
        with pytest.raises(CallError, match="expected a number for complex64"):
            scaled(x, number)


def test_results_are_put_into_arrays_that_are_given(scaled, x, torch):
    product, real = np.empty(9, "complex64"), np.empty(9, "float32")
    found = scaled(x, 1 - 2j, out=(product, real))
    assert found[0] is product
    assert found[1] is real
    check(found, x, 1 - 2j)
    tensors = torch.empty(9, dtype=torch.complex64), torch.empty(9)
    assert scaled(torch.from_numpy(x), 1j, out=tensors)[0] is tensors[0]
    check([one.numpy() for one in tensors], x, 1j)


def test_refuses_arrays_that_results_do_not_fit(scaled, x):
    real = np.empty(9, "float32")
    read_only = np.empty(9, "complex64")
    read_only.flags.writeable = False
    for out, message in (
        ((np.empty(8, "complex64"), real), r"product has shape \[8\]; expected \[9\]"),
        ((np.empty(9, "complex128"), real), "product is complex128; expected complex64"),
        ((read_only, real), "product is read-only"),
        ((x, real), "product shares memory with x"),
        ((np.empty(9, "complex64"), np.empty(18, "float32")[::2]), "real is not contiguous"),
        (([1j] * 9, real), "product is a list; expected a NumPy array or PyTorch tensor"),
        (np.empty(9, "complex64"), "out has 1 arrays; expected 2: product, real"),
    ):
        with pytest.raises(CallError, match=message):
            scaled(x, 1j, out=out)
    memory = np.empty(9, "complex64")
    with pytest.raises(CallError, match="real shares memory with product"):
        scaled(x, 1j, out=(memory, memory.view("float32")[:9]))
