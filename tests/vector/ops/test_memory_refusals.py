"""Each must of the ops on tensors and buffers that no rule of its own has: refused, and how."""

import pytest

from tvm_iree_ext.vector import AffineMap

REFUSED = {
    # transfers
    "a source of scalars": (
        lambda b, v: b.create(
            "vector.transfer_read", {"source": v.v4, "padding": v.v_f32},
            {"shape": (4,), "permutation_map": AffineMap.identity(1), "in_bounds": (False,)},
        ),
        "E_NOT_A_BUFFER", r"source is vector<4xf32>; expected a tensor or a buffer",
    ),
    "too few indices": (
        lambda b, v: b.transfer_read(v.t4x8, [0], (4,)),
        "E_ATTR_LENGTH", r"indices has 1 entries; expected 2, one for each dim of source",
    ),
    "an index that is no position": (
        lambda b, v: b.transfer_read(v.t4, [v.v_f32], (4,)),
        "E_ELEMENT_TYPE", r"indices\[0\] is f32; expected index",
    ),
    "too few flags": (
        lambda b, v: b.transfer_read(v.t4x8, [0, 0], (4, 8), in_bounds=[True]),
        "E_ATTR_LENGTH", r"in_bounds has 1 entries; expected 2, one for each dim of the vector",
    ),
    "padding of another type": (
        lambda b, v: b.transfer_read(v.t4, [0], (4,), padding=v.v_f16),
        "E_ELEMENT_TYPE", r"padding is f16; expected f32 as source has",
    ),
    "a map of other dims": (
        lambda b, v: b.transfer_read(v.t4x8, [0, 0], (4,), permutation_map="(d0) -> (d0)"),
        "E_MAP", r"has 1 dims; source tensor<4x8xf32> has 2",
    ),
    "a map with too many results": (
        lambda b, v: b.transfer_read(v.t4x8, [0, 0], (4,), permutation_map="(a, b) -> (a, b)"),
        "E_RANK", r"has 2 results; the vector has rank 1",
    ),
    "a vector of higher rank": (
        lambda b, v: b.transfer_read(v.t4, [0], (4, 8)),
        "E_RANK", r"the vector has rank 2 and tensor<4xf32> only 1; give a permutation_map",
    ),
    "a mask in the vector's order": (
        lambda b, v: b.transfer_read(
            v.t4x8, [0, 0], (8, 4), permutation_map="(a, b) -> (b, a)", mask=v.v8x4_i1
        ),
        "E_SHAPE_MISMATCH", r"mask has shape \[8x4\]; expected \[4x8\] as the vector's dims in mem",
    ),
    "a mask with the broadcast dim": (
        lambda b, v: b.transfer_read(
            v.t4x8, [0, 0], (2, 8), permutation_map="(a, b) -> (0, b)", mask=v.v2x8_i1
        ),
        "E_SHAPE_MISMATCH", r"mask has shape \[2x8\]; expected \[8\]",
    ),
    "a mask of numbers": (
        lambda b, v: b.transfer_read(v.t4, [0], (4,), mask=v.v4_i8),
        "E_ELEMENT_TYPE", r"elements of mask are i8; expected i1",
    ),
    "a write of other elements": (
        lambda b, v: b.transfer_write(v.v4_f16, v.t4, [0]),
        "E_ELEMENT_TYPE", r"elements of the vector are f16; expected f32 as of dest",
    ),
    # buffers
    "a load from a tensor": (
        lambda b, v: b.load(v.t4, [0], (4,)), "E_NOT_A_BUFFER", r"base is tensor<4xf32>; expected",
    ),
    "a store to a tensor": (
        lambda b, v: b.store(v.v4, v.t4, [0]), "E_NOT_A_BUFFER", r"base is tensor<4xf32>; expected",
    ),
    "a load of higher rank": (
        lambda b, v: b.load(v.m4, [0], (2, 2)),
        "E_RANK", r"the vector is vector<2x2xf32>; base memref<4xf32> has fewer dims",
    ),
    "a masked load with another mask": (
        lambda b, v: b.maskedload(v.m4, [0], v.v3_i1, v.v4),
        "E_SHAPE_MISMATCH", r"mask has shape \[3\]; expected \[4\] as the result",
    ),
    "a masked store with another mask": (
        lambda b, v: b.maskedstore(v.v4, v.m4, [0], v.v3_i1),
        "E_SHAPE_MISMATCH", r"mask has shape \[3\]; expected \[4\] as value",
    ),
    "a store of other elements": (
        lambda b, v: b.store(v.v4_f16, v.m4, [0]),
        "E_ELEMENT_TYPE", r"elements of the vector are f16; expected f32 as of base",
    ),
    "a gather by floats": (
        lambda b, v: b.gather(v.m4, [0], v.v4, v.v4_i1, v.v4),
        "E_ELEMENT_TYPE", r"indices are vector<4xf32>; expected integers",
    ),
    "a gather with another pass_thru": (
        lambda b, v: b.gather(v.m4, [0], v.v4_i32, v.v4_i1, v.v3),
        "E_SHAPE_MISMATCH", r"pass_thru has shape \[3\]; expected \[4\] as indices",
    ),
    "a gather with too many offsets": (
        lambda b, v: b.gather(v.m4, [0, 0], v.v4_i32, v.v4_i1, v.v4),
        "E_ATTR_LENGTH", r"offsets has 2 entries; expected 1",
    ),
    "a scatter into a tensor": (
        lambda b, v: b.scatter(v.t4, [0], v.v4_i32, v.v4_i1, v.v4),
        "E_NOT_A_BUFFER", r"base is tensor<4xf32>; expected a buffer",
    ),
    "an axis that is not there": (
        lambda b, v: b.dim(v.tnx4, 2), "E_INDEX_RANGE", r"axis is 2; base is tensor<\?x4xf32>",
    ),
    # tensors and structured ops
    "a slice that leaves the tensor": (
        lambda b, v: b.extract_slice(v.t4x8, [0, 5], [4, 4]),
        "E_INDEX_RANGE", r"offset 5 and size 4 leave dim 1 of source tensor<4x8xf32>",
    ),
    "a slice that is too large": (
        lambda b, v: b.insert_slice(v.t8, v.t4, [v.v_index]),
        "E_INDEX_RANGE", r"offset 0 and size 8 leave dim 0 of dest",
    ),
    "an inserted tensor of another rank": (
        lambda b, v: b.insert_slice(v.t8, v.t4x8, [0, 0]),
        "E_RANK", r"source is tensor<8xf32>, dest is tensor<4x8xf32>",
    ),
    "padding to another shape": (
        lambda b, v: b.pad(v.t4, [1], [1], shape=[7]),
        "E_SHAPE_MISMATCH", r"dim 0: low 1, 4, high 1 are not 7",
    ),
    "a product of matrices that do not fit": (
        lambda b, v: b.matmul(v.t4x8, v.t4x8, v.t4x8),
        "E_SHAPE_MISMATCH", r"dim 0 of rhs tensor<4x8xf32> is 4; d2 of the nest needs 8",
    ),
    "a convolution of too small an image": (
        lambda b, v: b.conv_2d(v.t1x4x4x3, v.t3x3x3x8, v.t1x2x2x8, strides=(2, 2)),
        "E_SHAPE_MISMATCH", r"dim 1 of lhs .* is 4; d1 \* 2 \+ d4 of the nest needs 5",
    ),
    "a convolution of stride 0": (
        lambda b, v: b.conv_2d(v.t1x4x4x3, v.t3x3x3x8, v.t1x2x2x8, strides=(0, 1)),
        "E_INDEX_RANGE", r"strides are \(0, 1\); from 1",
    ),
    "a fill of another type": (
        lambda b, v: b.fill(v.v_f16, v.t4), "E_ELEMENT_TYPE", r"value is f16; out is tensor<4xf32>",
    ),
    "a body that yields another type": (
        lambda b, v: b.generic([v.t4], [v.t4_f16], lambda x, y: x),
        "E_ELEMENT_TYPE", r"the body yields f32; expected f16",
    ),
    "an output that a reduction addresses": (
        lambda b, v: b.generic([v.t4], [v.t4], lambda x, y: x, iterator_types=["reduction"]),
        "E_MAP", r"the map of an output is .*expected each parallel dim once",
    ),
    "a dim whose extent is not known": (
        lambda b, v: b.generic(
            [v.t4], [v.t4], lambda x, y: x, iterator_types=["parallel", "reduction"],
            indexing_maps=["(i, j) -> (i + j)", "(i, j) -> (i)"],
        ),
        "E_MAP", r"no operand has d1 alone, so its extent is not known",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refuses(refused, case):
    refused(*REFUSED[case])
