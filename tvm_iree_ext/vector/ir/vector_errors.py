"""Refusals of the vector form: one code per rule, each with what to do about it."""

from tvm_iree_ext.base.errors import ExtError

REMEDIES = {
    "E_DYNAMIC_SHAPE": "vector extents must be compile-time constants of at least 1; tile first",
    "E_DYNAMIC_OUTER_INDEX": (
        "this index selects a register, whose number is part of an instruction;"
        " unroll the loop or go through memory"
    ),
    "E_LOOP_OVER_REGISTERS": (
        "registers cannot be selected at run time; unroll (static) or spill to memory explicitly"
    ),
    "E_INDEX_RANGE": "use an index inside the extent",
    "E_IRREGULAR_CAST": (
        "infinite cost: needs masking and lane shuffles;"
        " cast to the product of the merged dims, or go through memory"
    ),
    "E_SLICE_STRIDE": "slices take strides of 1; take the whole run and shuffle",
    "E_MAP": "rewrite the access so that each result is one plain dim, none twice",
    "E_BROADCAST_WRITE": "several lanes would write one element; write one of them",
    "E_SHAPE_MISMATCH": "make the shapes fit with broadcast, shape_cast or a slice",
    "E_ATTR_LENGTH": "give one entry for each",
    "E_ELEMENT_TYPE": "convert the elements first",
    "E_KIND_TYPE": "use a kind that is defined for the element type",
    "E_NO_REDUCTION": "write an outerproduct, or an elementwise op",
    "E_RANK": "use an operand of that rank, or unroll to it",
    "E_PERMUTATION": "name each dim once",
    "E_INNER_STRIDE": "gather from it, or copy it to a contiguous buffer",
    "E_NOT_A_BUFFER": "use transfer_read or transfer_write, or give memory of that kind",
    "E_NO_NATIVE_SHAPE": "unroll to a shape that the target has",
    "E_NO_LEGAL_SHAPE": "tile to smaller or divisible extents",
    "E_STRUCTURE": "build the op through the builder",
}
"""Remedies by code."""


class VectorError(ExtError, ValueError):
    """A program breaks a rule of the vector form; ``code`` names the rule.

    >>> VectorError("E_SLICE_STRIDE", "vector.extract_strided_slice: strides[0] is 2; expected 1")
    ... # doctest: +ELLIPSIS
    VectorError('vector.extract_strided_slice: strides[0] is 2; expected 1; slices take ...')
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{text}; {REMEDIES[code]} [{code}]")
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.code, str(self))


def _again(code: str, message: str) -> VectorError:
    """The error of a message that is complete, as unpickling has it."""
    error = VectorError(code, "")
    error.args = (message,)
    return error
