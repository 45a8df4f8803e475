"""Each must of the ops on values that no rule of its own has: refused, and with which message."""

import pytest

from tvm_iree_ext.vector import Block

MATMUL = ["(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"]
KINDS = ["parallel", "parallel", "reduction"]


def contract(b, lhs, rhs, acc, maps=MATMUL, iterators=KINDS, kind="add"):
    return b.contract(lhs, rhs, acc, indexing_maps=maps, iterator_types=iterators, kind=kind)


def empty_loop(b, carried, yielded):
    with b.loop(0, 4, carry=[carried]) as loop:
        loop.yield_(yielded)


REFUSED = {
    # contract
    "two maps": (
        lambda b, v: contract(b, v.v4x4, v.v4x4, v.v4x4, maps=MATMUL[:2]),
        "E_ATTR_LENGTH", r"indexing_maps has 2 entries; expected 3",
    ),
    "maps of other dims": (
        lambda b, v: contract(b, v.v4x4, v.v4x4, v.v4x4, iterators=KINDS[:2]),
        "E_ATTR_LENGTH", r"the map of lhs has 3 dims; expected 2, one for each iterator",
    ),
    "an unknown iterator": (
        lambda b, v: contract(b, v.v4x4, v.v4x4, v.v4x4, iterators=["window"] * 3),
        "E_MAP", r"iterator type 'window'; expected parallel, reduction",
    ),
    "a map of another rank": (
        lambda b, v: contract(b, v.v4, v.v4x4, v.v4x4),
        "E_RANK", r"the map of lhs is .* -> \(d0, d2\) with 2 results; lhs is vector<4xf32>",
    ),
    "a map with a zero": (
        lambda b, v: contract(
            b, v.v4x4, v.v4x4, v.v4x4, maps=["(m, n, k) -> (m, 0)", *MATMUL[1:]]
        ),
        "E_MAP", r"the map of lhs is .*expected distinct plain dims",
    ),
    "a parallel dim that acc lacks": (
        lambda b, v: contract(b, v.v4x4, v.v4x4, v.v4, maps=[*MATMUL[:2], "(m, n, k) -> (m)"]),
        "E_MAP", r"the map of acc .* lacks the parallel dim d1",
    ),
    "a dim that neither operand has": (
        lambda b, v: contract(
            b, v.v4x4, v.v4x4, v.v4x4, maps=[m.replace(", k)", ", k, x)", 1) for m in MATMUL],
            iterators=[*KINDS, "reduction"],
        ),
        "E_MAP", r"d3 is in the map of neither lhs nor rhs",
    ),
    "a reduction dim of one operand": (
        lambda b, v: contract(
            b, v.v4x4, v.v4, v.v4, iterators=KINDS[1:],
            maps=["(m, k) -> (m, k)", "(m, k) -> (m)", "(m, k) -> (m)"],
        ),
        "E_NO_REDUCTION", r"lhs and rhs share no reduction dim; write an outerproduct",
    ),
    "operands of two types": (
        lambda b, v: contract(b, v.v4x4_f16, v.v4x4, v.v4x4),
        "E_ELEMENT_TYPE", r"elements of rhs are f32; expected f16 as of lhs",
    ),
    "a narrower acc": (
        lambda b, v: contract(b, v.v4x4, v.v4x4, v.v4x4_f16),
        "E_ELEMENT_TYPE", r"elements of lhs and rhs are f32, which do not extend to f16 of acc",
    ),
    "floats into integers": (
        lambda b, v: contract(b, v.v4x4, v.v4x4, v.v4x4_i64),
        "E_ELEMENT_TYPE", r"f32, which do not extend to i64",
    ),
    "extents that differ": (
        lambda b, v: contract(b, v.v4x3, v.v4x4, v.v4x4),
        "E_SHAPE_MISMATCH", r"d2 is 4 in dim 0 of rhs; expected 3 as in lhs",
    ),
    "an unknown kind": (
        lambda b, v: contract(b, v.v4x4, v.v4x4, v.v4x4, kind="average"),
        "E_KIND_TYPE", r"kind 'average' of f32; expected one of add, mul, minnumf",
    ),
    # reductions
    "a dim that is not there": (
        lambda b, v: b.multi_reduction(v.v4x8, v.v4, [2]),
        "E_INDEX_RANGE", r"reduction_dims has 2; source is vector<4x8xf32>",
    ),
    "a dim twice": (
        lambda b, v: b.multi_reduction(v.v4x8, v.v4, [1, 1]),
        "E_PERMUTATION", r"reduction_dims \[1, 1\] has a dim twice",
    ),
    "an acc of another type": (
        lambda b, v: b.multi_reduction(v.v4x8, v.v4_f16, [1]),
        "E_ELEMENT_TYPE", r"elements of acc are f16; expected f32 as of source",
    ),
    "a bitwise kind of floats": (
        lambda b, v: b.multi_reduction(v.v4x8, v.v4, [1], kind="and"),
        "E_KIND_TYPE", r"kind 'and' of f32",
    ),
    "a vector as acc": (
        lambda b, v: b.reduction(v.v4, v.v4),
        "E_ELEMENT_TYPE", r"acc is vector<4xf32>; expected f32",
    ),
    # shapes
    "a permutation that is too short": (
        lambda b, v: b.transpose(v.v4x8, [0]),
        "E_PERMUTATION", r"permutation is \[0\]; expected one of the 2 dims",
    ),
    "a broadcast to fewer dims": (
        lambda b, v: b.broadcast(v.v4x8, (8,)),
        "E_RANK", r"source is vector<4x8xf32>; vector<8xf32> has fewer dims",
    ),
    "a broadcast to another extent": (
        lambda b, v: b.broadcast(v.v4, (4, 8)),
        "E_SHAPE_MISMATCH", r"dim 0 of source is 4; expected 1 or 8 as dim 1",
    ),
    "a splat of a vector": (
        lambda b, v: b.splat(v.v4, (4, 4)), "E_RANK", r"source is vector<4xf32>; expected a scalar",
    ),
    "an empty shuffle": (
        lambda b, v: b.shuffle(v.v4, v.v4, []), "E_ATTR_LENGTH", r"mask is empty",
    ),
    "a shuffle out of range": (
        lambda b, v: b.shuffle(v.v4, v.v2, [0, 6]),
        "E_INDEX_RANGE", r"mask\[1\] is 6; expected 0\.\.5",
    ),
    "a shuffle by run-time values": (
        lambda b, v: b.shuffle(v.v4, v.v4, [v.v_index]),
        "E_DYNAMIC_OUTER_INDEX", r"mask\[0\] is <Value .*expected a number",
    ),
    "a shuffle of two types": (
        lambda b, v: b.shuffle(v.v4, v.v4_f16, [0]), "E_ELEMENT_TYPE", r"elements of v2 are f16",
    ),
    "a shape cast to other elements": (
        lambda b, v: b.shape_cast(v.v4x8, (16,)),
        "E_SHAPE_MISMATCH", r"with 32 elements; vector<16xf32> has 16",
    ),
    "a reshape to other elements": (
        lambda b, v: b.reshape(v.v3x2x4, [3, 6], [2, 8], [4]),
        "E_SHAPE_MISMATCH", r"input_shape \[3, 6\] has 18 elements; output_shape \[2, 8\] has 16",
    ),
    "a reshape of other blocks": (
        lambda b, v: b.reshape(v.v3x3x4, [3, 6], [2, 9], [4]),
        "E_SHAPE_MISMATCH", r"vector has shape \[3x3x4\]; expected \[3x2x4\] as input_shape in",
    ),
    "a reshape with too many sizes": (
        lambda b, v: b.reshape(v.v4x4, [4], [4], [2, 2]),
        "E_RANK", r"input_shape \[4\] has fewer dims than fixed_vector_sizes",
    ),
    # slices, lanes
    "more offsets than dims": (
        lambda b, v: b.extract_strided_slice(v.v4, [0, 0], [1, 1]),
        "E_ATTR_LENGTH", r"2 offsets; vector is vector<4xf32>",
    ),
    "sizes and offsets that differ": (
        lambda b, v: b.extract_strided_slice(v.v4x8, [0, 0], [1]),
        "E_ATTR_LENGTH", r"sizes has 1 entries; expected 2",
    ),
    "a slice that leaves the vector": (
        lambda b, v: b.extract_strided_slice(v.v4x8, [3], [2]),
        "E_INDEX_RANGE", r"offset 3 and size 2 leave dim 0 of vector, 4",
    ),
    "an inserted slice that leaves the vector": (
        lambda b, v: b.insert_strided_slice(v.v4, v.v4x8, [0, 5]),
        "E_INDEX_RANGE", r"offset 5 and size 4 leave dim 1 of dest, 8",
    ),
    "an inserted slice of higher rank": (
        lambda b, v: b.insert_strided_slice(v.v4x8, v.v4, [0]),
        "E_RANK", r"value is vector<4x8xf32>; dest vector<4xf32> has fewer dims",
    ),
    "too few offsets": (
        lambda b, v: b.insert_strided_slice(v.v4, v.v4x8, [0]),
        "E_ATTR_LENGTH", r"offsets has 1 entries; expected 2, one for each dim of dest",
    ),
    "an inserted part of another shape": (
        lambda b, v: b.insert_at(v.v4, v.v4x8, 0),
        "E_SHAPE_MISMATCH", r"value has shape \[4\]; expected \[8\] as dest behind the position",
    ),
    "an element of two dims": (
        lambda b, v: b.extractelement(v.v4x8, 0), "E_RANK", r"vector is vector<4x8xf32>; expected",
    ),
    "an element without position": (
        lambda b, v: b.extractelement(v.v4), "E_ATTR_LENGTH", r"vector<4xf32> and has no position",
    ),
    "an inserted element of another type": (
        lambda b, v: b.insertelement(v.v_f16, v.v4, 0),
        "E_ELEMENT_TYPE", r"value is f16; expected f32",
    ),
    "indexing memory": (
        lambda b, v: v.t4x8[0], "E_RANK", r"tensor<4x8xf32> cannot be indexed; expected a vector",
    ),
    "an index that is no number": (
        lambda b, v: v.v4[1.5], "E_ELEMENT_TYPE", r"position\[0\] is 1.5; expected an index",
    ),
    # fma, outerproduct, elementwise
    "fma of integers": (
        lambda b, v: b.fma(v.v4_i32, v.v4_i32, v.v4_i32),
        "E_ELEMENT_TYPE", r"lhs has i32; expected floats",
    ),
    "fma of two shapes": (
        lambda b, v: b.fma(v.v4, v.v8, v.v4),
        "E_SHAPE_MISMATCH", r"rhs has shape \[8\]; expected \[4\] as lhs",
    ),
    "an outer product of matrices": (
        lambda b, v: b.outerproduct(v.v4x8, v.v4), "E_RANK", r"expected 1-D vectors",
    ),
    "an outer product's acc turned round": (
        lambda b, v: b.outerproduct(v.v4, v.v2, v.v2x4),
        "E_SHAPE_MISMATCH", r"acc has shape \[2x4\]; expected \[4x2\] as of lhs, then rhs",
    ),
    "floats added as integers": (
        lambda b, v: b.elementwise("addi", v.v4, v.v4),
        "E_ELEMENT_TYPE", r"lhs has f32; expected i1, i8",
    ),
    "arithmetic on tensors": (
        lambda b, v: b.elementwise("addf", v.t4, v.t4),
        "E_RANK", r"lhs is tensor<4xf32>; expected a vector or a scalar",
    ),
    "a shift of i1": (
        lambda b, v: b.elementwise("shli", v.v4_i1, v.v4_i1),
        "E_ELEMENT_TYPE", r"lhs has i1; expected i8",
    ),
    "exp of integers": (
        lambda b, v: b.elementwise("math.exp", v.v4_i32),
        "E_ELEMENT_TYPE", r"operand has i32; expected floats",
    ),
    "an unknown predicate": (
        lambda b, v: b.compare("lt", v.v4, v.v4),
        "E_KIND_TYPE", r"predicate 'lt'; expected one of oeq",
    ),
    "a condition of another shape": (
        lambda b, v: b.select(v.v8_i1, v.v4, v.v4),
        "E_SHAPE_MISMATCH", r"condition has shape \[8\]; expected \[4\] as on_true",
    ),
    "a cast to a narrower type": (
        lambda b, v: b.elementwise("extf", v.v4, dtype="f16"),
        "E_ELEMENT_TYPE", r"does not take vector<4xf32> to vector<4xf16>",
    ),
    "a constant of another type": (
        lambda b, v: b.constant(1.5, "i32"), "E_ELEMENT_TYPE", r"arith.constant: float64 for i32",
    ),
    # loops
    "a loop that yields another shape": (
        lambda b, v: empty_loop(b, v.v4, v.v8),
        "E_SHAPE_MISMATCH", r"yields vector<8xf32> as value 0; expected vector<4xf32>",
    ),
    "a loop that yields another type": (
        lambda b, v: empty_loop(b, v.v4, v.v4_f16),
        "E_ELEMENT_TYPE", r"yields vector<4xf16> as value 0; expected vector<4xf32>",
    ),
    "a loop that carries a buffer": (
        lambda b, v: empty_loop(b, v.m4, v.m4),
        "E_STRUCTURE", r"inits\[0\] is memref<4xf32>; a buffer is not carried",
    ),
    "a loop that stands still": (
        lambda b, v: b.create(
            "scf.for", {name: b.index(0) for name in ("lower", "upper", "step")}, {}, [Block()]
        ),
        "E_INDEX_RANGE", r"step is 0; expected at least 1",
    ),
    "a condition that is a vector": (
        lambda b, v: b.if_(v.v4_i1, lambda: None),
        "E_ELEMENT_TYPE", r"condition is vector<4xi1>; expected i1",
    ),
    "bodies that yield differently": (
        lambda b, v: b.if_(v.v_i1, lambda: v.v4, lambda: v.v8),
        "E_SHAPE_MISMATCH", r"yields vector<8xf32> as value 0; expected vector<4xf32>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refuses(refused, case):
    refused(*REFUSED[case])
