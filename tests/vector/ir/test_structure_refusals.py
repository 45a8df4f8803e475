"""Refusals of maps, types and operations, with their messages."""

import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector import AffineMap, Operation, VectorError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("d0 -> d0", "expected the form"),
        ("(a, a) -> (a)", "a dim is declared twice"),
        ("(a) -> (a * a)", "'a \\* a' is not linear"),
        ("(a)[s] -> (a + s)", "expected the form"),
        ("(a) -> (a mod 2)", "invalid syntax|is not linear"),
        ("(a) -> (b)", "'b' is not linear in its dims"),
    ],
)
def test_a_map_must_be_linear_in_its_dims(text, message):
    with pytest.raises(VectorError, match=message):
        AffineMap.parse(text)


def test_unsigned_and_unknown_element_types_are_refused():
    with pytest.raises(VectorError, match="integers are signless; write i8 to i64"):
        vector.vector((4,), "uint8")
    with pytest.raises(VectorError, match="dtype 'f80' is unknown"):
        vector.vector((4,), "f80")


def test_memory_extents_and_strides_are_checked():
    with pytest.raises(VectorError, match="extent 0 is -1; expected a number, a name or"):
        vector.tensor((-1,))
    with pytest.raises(VectorError, match="1 strides; expected 2"):
        vector.buffer((4, 4), strides=[1])
    strided = vector.buffer((8, 8), strides=[16, 2])
    assert str(strided) == "memref<8x8xf32, strided<[16, 2]>>"
    with vector.program("strided") as b:
        base = b.argument("base", strided)
        with pytest.raises(VectorError, match=r"has the stride 2; expected 1.*\[E_INNER_STRIDE\]"):
            b.load(base, [0, 0], (4,))


def test_operations_made_by_hand_are_checked_too():
    with vector.program("by_hand") as b:
        v = b.argument("v", vector.vector((4, 8)))
        with pytest.raises(VectorError, match="permutation is"):
            Operation("vector.transpose", {"vector": v}, {"permutation": (1, 1)})
        assert v.users == []
