import ml_dtypes
import numpy as np
import pytest
import tvm

from tvm_iree_ext.base.errors import CallError, ScheduleError

BF16 = np.dtype(ml_dtypes.bfloat16)
X = np.arange(12, dtype="float32").reshape(3, 4)


class OnlyDLPack:
    """An array of some library of which nothing but DLPack is known."""

    def __init__(self, array, readable=True):
        self._array = array
        self._readable = readable

    def __dlpack__(self, **arguments):
        if not self._readable:
            raise BufferError("this array requires grad")
        return self._array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def misaligned(array: np.ndarray) -> np.ndarray:
    """The same numbers, one byte off."""
    raw = np.zeros(array.nbytes + 1, "uint8")
    moved = raw[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


# What a call takes and returns


def test_returns_numpy_for_numpy(toys):
    y = toys.scale(X, 2.0)
    assert type(y) is np.ndarray
    np.testing.assert_array_equal(y, 2 * X)


def test_arguments_may_be_named(toys):
    np.testing.assert_array_equal(toys.scale(factor=3, x=X), 3 * X)
    np.testing.assert_array_equal(toys.scale(X, factor=3), 3 * X)


def test_several_results_are_a_tuple(toys):
    low, high = toys.shift(np.array([1, 2, 3], "int32"), 10, False)
    assert low.tolist() == [-9, -8, -7]
    assert high.tolist() == [11, 12, 13]


def test_a_kernel_may_take_no_arguments(toys):
    out = np.zeros(3, "int32")
    assert toys.ones().tolist() == [1, 1, 1]
    assert toys.ones(out=out) is out
    assert out.tolist() == [1, 1, 1]
    with pytest.raises(CallError, match=r"toy\.ones: 1 arguments came; expected 0: none"):
        toys.ones(X)
    with pytest.raises(CallError, match="has no argument 'x'; the arguments are none"):
        toys.ones(x=X)


def test_scalars_may_be_numpy_scalars(toys):
    low, _ = toys.shift(np.array([1, 2, 3], "int32"), np.int64(10), np.bool_(True))
    assert low.tolist() == [9, 8, 7]
    np.testing.assert_array_equal(toys.scale(X, np.float64(0.5)), X / 2)
    np.testing.assert_array_equal(toys.scale(X, np.array(0.5, "float32")), X / 2)


def test_symbolic_extents_may_change_from_call_to_call(toys):
    for rows in (1, 7, 1, 0, 3):
        assert toys.scale(np.ones((rows, 4), "float32"), 2.0).tolist() == [[2.0] * 4] * rows


def test_remembers_no_more_than_a_bounded_number_of_shapes(toys):
    for rows in range(1, 600):
        assert toys.scale(np.ones((rows, 4), "float32"), 2.0).shape == (rows, 4)
    assert len(toys.scale._caller._plans) <= 256


def test_out_is_filled_and_returned(toys):
    out = np.empty_like(X)
    assert toys.scale(X, 2.0, out=out) is out
    np.testing.assert_array_equal(out, 2 * X)


def test_out_of_several_results_is_a_tuple(toys):
    out = np.empty(3, "int32"), np.empty(3, "int32")
    low, high = toys.shift(np.array([1, 2, 3], "int32"), 1, False, out=out)
    assert low is out[0]
    assert high is out[1]
    assert high.tolist() == [2, 3, 4]


def test_bfloat16_and_bool_of_numpy(toys):
    x, y = np.array([1, 2, 3, 4], BF16), np.array([5, 6, 7, 8], BF16)
    mask = np.array([True, False, True, False])
    out = np.empty(4, BF16)
    z = toys.choose(x, y, mask)
    assert z.dtype == BF16
    assert z.tolist() == [1, 6, 3, 8]
    assert toys.choose(x, y, mask, out=out) is out
    assert out.tolist() == [1, 6, 3, 8]
    assert toys.choose(read_only(x), misaligned(y), read_only(mask)).tolist() == [1, 6, 3, 8]


def test_tvm_tensors_give_tensors_that_share_memory_by_dlpack(toys):
    y = toys.scale(tvm.runtime.tensor(X), 2.0)
    np.testing.assert_array_equal(np.from_dlpack(y), 2 * X)
    out = tvm.runtime.tensor(np.empty_like(X))
    assert toys.scale(tvm.runtime.tensor(X), 2.0, out=out) is out
    np.testing.assert_array_equal(out.numpy(), 2 * X)


@pytest.mark.parametrize("array", [X, X.T.copy().T, misaligned(X)], ids=["plain", "T", "off"])
def test_takes_any_array_with_dlpack(toys, array):
    np.testing.assert_array_equal(np.from_dlpack(toys.scale(OnlyDLPack(array), 2.0)), 2 * X)


def test_takes_bfloat16_and_bool_by_dlpack(toys):
    x, y = (tvm.runtime.tensor(np.array(values, BF16)) for values in ([1, 2, 3, 4], [5, 6, 7, 8]))
    mask = OnlyDLPack(np.array([True, False, True, False]))
    z = toys.choose(OnlyDLPack(x), OnlyDLPack(y), mask)
    assert z.numpy().astype("float32").tolist() == [1, 6, 3, 8]


def test_results_of_dlpack_arrays_are_taken_for_inputs(toys):
    y = toys.scale(OnlyDLPack(X), 2.0)
    np.testing.assert_array_equal(np.from_dlpack(toys.scale(y, 2.0)), 4 * X)


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
        X[::-1].copy()[::-1],
        misaligned(X),
        misaligned(np.repeat(X, 2, axis=1))[:, ::2],
        read_only(X),
        read_only(np.asfortranarray(X)),
        X.view(np.matrix),
    ],
    ids=["fortran", "strided", "reversed", "off", "off-strided", "ro", "ro-fortran", "matrix"],
)
def test_takes_inputs_of_any_layout_and_leaves_them_alone(toys, array):
    before = np.array(array)
    np.testing.assert_array_equal(toys.scale(array, 2.0), 2 * X)
    np.testing.assert_array_equal(np.array(array), before)


def test_takes_a_broadcast_input(toys):
    np.testing.assert_array_equal(toys.scale(np.broadcast_to(X[:1], (5, 4)), 1.0), X[[0] * 5])


def test_a_kernel_says_what_it_is(toys):
    assert repr(toys.scale) == (
        "<Kernel toy.scale(x: float32[rows, 4], factor: float32[]) -> float32[rows, 4]"
        " for llvm, given config>"
    )
    assert toys.scale.manifest.config == {"tile": 4}
    with pytest.raises(ScheduleError, match="unknown field tile"):
        toys.scale.config  # noqa: B018 - of another version
    assert toys.scale.resources["code_bytes"] > 0
    assert toys.scale.resources["needs_runtime"] is False
    assert toys.row_sums.resources["needs_runtime"] is True


# Refusals


F32 = np.ones((2, 4), "float32")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((F32,), "toy.scale: factor missing; the arguments are x, factor"),
        ((F32, 1.0, 2.0), "toy.scale: 3 arguments came; expected 2: x, factor"),
        ((F32[0], 1.0), "toy.scale: x has rank 1; expected 2 for [rows, 4]"),
        ((F32[:, :3], 1.0), "toy.scale: x axis 1 has extent 3; expected 4"),
        ((F32.astype("float64"), 1.0), "toy.scale: x is float64; expected float32"),
        ((F32.astype(">f4"), 1.0), "toy.scale: x is float32 in foreign byte order; expected"),
        ((F32.astype(BF16), 1.0), "toy.scale: x is bfloat16; expected float32"),
        (([[1.0] * 4], 1.0), "toy.scale: x is a list; expected an array"),
        ((None, 1.0), "toy.scale: x is a NoneType; expected an array"),
        ((np.ma.masked_array(F32), 1.0), "toy.scale: x is a masked array"),
        ((OnlyDLPack(F32.astype("int32")), 1.0), "toy.scale: x is int32; expected float32"),
        ((OnlyDLPack(F32 * 1j), 1.0), "toy.scale: x is of a type that TVM does not know; expected"),
        ((OnlyDLPack(F32[0]), 1.0), "toy.scale: x has rank 1; expected 2 for [rows, 4]"),
        ((OnlyDLPack(read_only(F32)), 1.0), "toy.scale: x cannot be read by DLPack"),
        ((OnlyDLPack(F32, readable=False), 1.0), "by DLPack: this array requires grad"),
        ((F32, "2"), "toy.scale: factor is '2', a str; expected a number for float32"),
        ((F32, 2j), "toy.scale: factor is 2j, a complex; expected a number for float32"),
        ((F32, F32), "a ndarray; expected a number for float32"),
        ((F32, True), "toy.scale: factor is True, a bool; expected a number for float32"),
    ],
)
def test_refuses_what_does_not_fit(toys, arguments, message):
    with pytest.raises(CallError) as caught:
        toys.scale(*arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("offset", "negate", "message"),
    [
        (1.0, False, "offset is 1.0, a float; expected a number for int32"),
        (2**31, False, "offset is 2147483648; int32 holds -2147483648..2147483647"),
        (1, 0, "negate is 0, a int; expected a number for bool"),
    ],
)
def test_refuses_scalars_that_would_change(toys, offset, negate, message):
    with pytest.raises(CallError, match=message.replace(".", r"\.")):
        toys.shift(np.zeros(3, "int32"), offset, negate)


def test_refuses_names_that_are_wrong_or_double(toys):
    with pytest.raises(CallError, match="has no argument 'z'; the arguments are x, factor"):
        toys.scale(F32, z=1.0)
    with pytest.raises(CallError, match="x came twice, by position and by name"):
        toys.scale(F32, x=F32)


SHARED = np.zeros((5, 4), "float32")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty((3, 4), "float32"), "y has shape [3, 4]; expected [2, 4]"),
        (np.empty((2, 4), "float64"), "y is float64; expected float32"),
        (np.empty((2, 8), "float32")[:, ::2], "y is not contiguous; expected row-major order"),
        (misaligned(F32), "y is misaligned; expected a multiple of 4 bytes"),
        (read_only(F32), "y is read-only; expected an array to be written"),
        ([[0.0] * 4] * 2, "out has 2 arrays; expected 1: y"),
        (OnlyDLPack(F32), "y is a OnlyDLPack; expected a NumPy array, PyTorch tensor, CuPy"),
        (SHARED[1:3], "y shares memory with x"),
    ],
    ids=["shape", "dtype", "strided", "misaligned", "read-only", "list", "foreign", "overlap"],
)
def test_refuses_an_out_that_cannot_be_filled(toys, out, message):
    with pytest.raises(CallError) as caught:
        toys.scale(SHARED[:2], 1.0, out=out)
    assert message in str(caught.value)


def test_refuses_results_that_share_memory(toys):
    memory = np.zeros(6, "int32")
    with pytest.raises(CallError, match="high shares memory with low"):
        toys.shift(np.zeros(3, "int32"), 1, False, out=(memory[:3], memory[2:5]))


def test_out_may_lie_beside_an_input_in_one_array(toys):
    memory = np.ones((4, 4), "float32")
    toys.scale(memory[:2], 3.0, out=memory[2:])
    assert memory.tolist() == [[1.0] * 4] * 2 + [[3.0] * 4] * 2


def test_an_empty_result_is_returned_without_a_call(toys):
    assert toys.row_sums(np.ones((0, 5), "float32")).shape == (0,)
    out = np.empty((0,), "float32")
    assert toys.row_sums(np.ones((0, 0), "float32"), out=out) is out


def test_refuses_to_reduce_over_nothing(toys):
    with pytest.raises(CallError, match=r"x is empty, \[2, 0\], and a result is not"):
        toys.row_sums(np.ones((2, 0), "float32"))


def test_refuses_float64_for_bfloat16(toys):
    x = np.ones(4)
    with pytest.raises(CallError, match="x is float64; expected bfloat16"):
        toys.choose(x, x, np.ones(4, bool))


def test_nothing_is_written_when_a_call_is_refused(toys):
    out = np.full((2, 4), 7, "float32")
    with pytest.raises(CallError):
        toys.scale(F32, "no number", out=out)
    assert (out == 7).all()
