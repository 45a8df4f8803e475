"""Calls that go to the library as they are, and what it refuses of them."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.runtime.kernel import _PATIENCE, Kernel


@pytest.fixture(scope="module")
def matmul() -> Kernel:
    return ext.build(ops.matmul(("m", 4), (4, 3)))


@pytest.fixture(scope="module")
def largest() -> Kernel:
    return ext.build(ops.arg_compare((5, 7), dimension=1))


@pytest.fixture
def scatter() -> Kernel:
    return ext.build(ops.scatter((2, 3), (2,), (4, 3), region="add"))


LHS = np.arange(8, dtype="float32").reshape(2, 4)
RHS = np.arange(12, dtype="float32").reshape(4, 3)
TOGETHER = np.arange(30, dtype="float32")
INITS = np.full(5, -np.inf, "float32"), np.zeros(5, "int32")
UPDATES = np.ones((2, 3), "float32")
INDICES = np.array([3, 0], "int32")


def misaligned(shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(np.prod(shape) * 4 + 1, "uint8")[1:].view("float32").reshape(shape)


def refuse_to_look(kernel: Kernel, monkeypatch) -> None:
    monkeypatch.setattr(kernel, "_checked_call", lambda *_: pytest.fail("arrays were looked at"))


def test_plain_arrays_are_not_looked_at(matmul, largest, monkeypatch):
    for kernel in (matmul, largest):
        refuse_to_look(kernel, monkeypatch)
    out = np.empty((2, 3), "float32")
    assert matmul(LHS, RHS, out=out) is out
    np.testing.assert_array_equal(out, LHS @ RHS)
    numbers = np.random.default_rng(0).standard_normal((5, 7), "float32")
    value, index = largest(numbers, *INITS)
    np.testing.assert_array_equal(index, numbers.argmax(1))
    given = value.copy(), index.copy()
    assert largest(numbers, *INITS, out=given) is given


@pytest.mark.parametrize(
    "call",
    [
        lambda k, out: k(LHS, out=out),
        lambda k, out: k(LHS, RHS, RHS, out=out),
        lambda k, out: k(LHS, RHS.astype("float64"), out=out),
        lambda k, out: k(LHS.astype(">f4"), RHS, out=out),
        lambda k, out: k(LHS[:, :3], RHS, out=out),
        lambda k, out: k(LHS[0], RHS, out=out),
        lambda k, out: k(np.ma.masked_array(LHS), RHS, out=out),
        lambda k, out: k(LHS, RHS, out=np.empty((3, 3), "float32")),
        lambda k, out: k(LHS, RHS, out=np.empty((3, 2), "float32").T),
        lambda k, out: k(LHS, RHS, out=misaligned((2, 3))),
        lambda k, out: k(LHS, RHS, out=np.broadcast_to(out[0], (2, 3))),
        lambda k, out: k(LHS, RHS, out=(out, out)),
        lambda k, out: k(TOGETHER[:8].reshape(2, 4), RHS, out=TOGETHER[7:13].reshape(2, 3)),
        lambda k, out: k(LHS, TOGETHER[5:17].reshape(4, 3), out=TOGETHER[:6].reshape(2, 3)),
    ],
)
def test_what_the_library_refuses_is_told_as_by_the_checks(matmul, call):
    def message(kernel) -> str:
        with pytest.raises(CallError) as caught:
            call(kernel, np.empty((2, 3), "float32"))
        assert caught.value.__context__ is None
        return str(caught.value)

    checked = message(lambda *arrays, out: matmul._checked_call(arrays, out, {}))
    assert message(matmul) == checked


def test_empty_and_misaligned_arrays_are_taken(matmul):
    assert matmul(np.ones((0, 4), "float32"), RHS, out=np.empty((0, 3), "float32")).shape == (0, 3)
    off = misaligned((4, 3))
    off[...] = RHS
    np.testing.assert_array_equal(matmul(LHS, off), LHS @ RHS)


def test_after_enough_conversions_they_are_expected():
    kernel = ext.build(ops.matmul(("m", 4), (4, 3)))
    out = np.empty((2, 3), "float32")
    for _ in range(_PATIENCE):
        assert kernel._patience
        np.testing.assert_array_equal(kernel(LHS, np.asfortranarray(RHS), out=out), LHS @ RHS)
        with pytest.raises(CallError):  # what is wrong says nothing of what will come
            kernel(LHS, LHS, out=out)
    assert not kernel._patience
    np.testing.assert_array_equal(kernel(LHS, RHS, out=out), LHS @ RHS)


def test_the_library_itself_refuses_arrays_that_share_memory(matmul, largest):
    a, b = TOGETHER[:8].reshape(2, 4), TOGETHER[8:20].reshape(4, 3)
    matmul._function(a, b, np.empty((2, 3), "float32"))
    with pytest.raises(ValueError, match="result shares memory with rhs"):
        matmul._function(a, b, TOGETHER[19:25].reshape(2, 3))
    with pytest.raises(ValueError, match="result is misaligned"):
        matmul._function(a, b, misaligned((2, 3)))
    both = np.empty(9, "int32")
    with pytest.raises(ValueError, match="index shares memory with value"):
        largest._function(np.ones((5, 7), "float32"), *INITS, both[:5].view("float32"), both[4:])


def test_a_scatter_into_its_original_copies_nothing(scatter, monkeypatch):
    refuse_to_look(scatter, monkeypatch)
    original = np.arange(12, dtype="float32").reshape(4, 3)
    want = original.copy()
    want[[3, 0]] += 1
    apart = scatter(UPDATES, INDICES, original)
    np.testing.assert_array_equal(apart, want)
    assert scatter(UPDATES, INDICES, original, out=original) is original
    np.testing.assert_array_equal(original, want)


def test_other_arrays_than_numpys_may_be_in_place(scatter):
    torch = pytest.importorskip("torch", reason="no PyTorch: scripts/setup dev bench installs it")
    original = torch.zeros(4, 3)
    arguments = torch.from_numpy(UPDATES), torch.from_numpy(INDICES)
    assert scatter(*arguments, original, out=original) is original
    assert original.tolist() == [[1.0] * 3, [0.0] * 3, [0.0] * 3, [1.0] * 3]


def test_only_the_very_original_may_be_the_result(scatter):
    rows = np.zeros((5, 3), "float32")
    with pytest.raises(CallError, match="result shares memory with original"):
        scatter(UPDATES, INDICES, rows[:4], out=rows[1:])
    square = np.zeros((4, 3), "float32")
    with pytest.raises(CallError, match="result shares memory with updates"):
        scatter(square[:2], INDICES, square, out=square)
