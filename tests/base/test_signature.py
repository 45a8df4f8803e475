"""Signatures: extents that follow from others, and those that only a result has."""

import pytest

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.signature import Operand, Signature, extent_value

TILED = Signature(
    (
        Operand("x", ("rows", 4), "float32"),
        Operand("y", ("ceildiv(rows, 8)", 8, 4), "float32", "result"),
    )
)
CROPPED = Signature(
    (
        Operand("x", ("tiles", 8), "float32", least=("ceildiv(rows, 8)", 8)),
        Operand("y", ("rows",), "float32", "result"),
    )
)


@pytest.mark.parametrize(
    ("extent", "value"),
    [
        (5, 5),
        ("n", 13),
        ("ceildiv(n, 8)", 2),
        ("6 * n", 78),
        ("ceildiv(n - 2, 6) + n // 2", 8),
        ("max(0, n - 14) + min(n, 5) % 3", 2),
        ("n + -3", 10),
    ],
)
def test_an_extent_may_be_arithmetic_of_names(extent, value):
    assert extent_value(extent, {"n": 13}) == value


def test_refuses_other_expressions():
    with pytest.raises(ValueError, match="n / 2 is no arithmetic of extents"):
        extent_value("n / 2", {"n": 13})
    with pytest.raises(KeyError, match="m"):
        extent_value("m + 1", {"n": 13})


def test_names_inside_expressions_are_no_symbols_of_their_own():
    assert TILED.symbols == ("rows",)
    assert TILED.result_symbols == ()
    assert TILED.result_shapes({"rows": 17}) == [(3, 8, 4)]


def test_a_result_may_bring_its_extents():
    assert CROPPED.result_symbols == ("rows",)
    bound = CROPPED.bind("crop", [(2, 8)])
    CROPPED.bind_results("crop", bound, [(13,)])
    assert CROPPED.result_shapes(bound) == [(13,)]
    with pytest.raises(CallError, match="crop: x axis 0 has extent 2; expected at least 3"):
        CROPPED.bind_results("crop", {"tiles": 2}, [(17,)])
    with pytest.raises(CallError, match="crop: y has rank 2; expected 1"):
        CROPPED.bind_results("crop", {"tiles": 2}, [(17, 1)])
    with pytest.raises(CallError, match="extent rows follows from no argument; give out="):
        CROPPED.bind_results("crop", {"tiles": 2}, None)


FUSED = Signature(
    (
        Operand("x", ("rows", 4), "float32"),
        Operand("bias", ("ceildiv(rows, 8)", 1), "float32"),
        Operand("y", ("ceildiv(rows, 8)", 4), "float32", "result"),
    )
)


def test_an_argument_may_have_an_extent_that_follows_from_others():
    assert FUSED.symbols == ("rows",)
    bound = FUSED.bind("fused", [(17, 4), (3, 1)])
    assert FUSED.result_shapes(bound) == [(3, 4)]
    with pytest.raises(CallError, match=r"bias axis 0 has extent 2; expected 3 \(ceildiv\(rows"):
        FUSED.bind("fused", [(17, 4), (2, 1)])
    wrong = FUSED.to_json()
    wrong[1]["shape"][0] = "ceildiv(lines, 8)"
    with pytest.raises(ValueError, match="bias has the extent"):
        Signature.from_json(wrong)


@pytest.mark.parametrize("signature", [TILED, CROPPED, FUSED])
def test_round_trips_through_json(signature):
    assert Signature.from_json(signature.to_json()) == signature
