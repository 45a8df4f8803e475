"""Each must of the ops that no rule of its own has: refused, and with which message."""

import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector import AffineMap, Block, Operation, VectorError

MATMUL = ["(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"]
KINDS = ["parallel", "parallel", "reduction"]


class Values:
    """Arguments by their types: ``values.v4x8`` is a vector<4x8xf32>, ``values.t4x8`` a tensor."""

    def __init__(self, b):
        self._b = b

    def __getattr__(self, name):
        kind = {"v": vector.vector, "t": vector.tensor, "m": vector.buffer}[name[0]]
        extents, _, dtype = name[1:].partition("_")
        shape = [int(e) if e.isdecimal() else "?" for e in extents.split("x") if e]
        type = kind(shape, dtype or "f32") if shape else vector.scalar(dtype)
        for argument in self._b.entry.arguments:
            if argument.hint == name:
                return argument
        return self._b.argument(name, type)


def contract(b, lhs, rhs, acc, maps=MATMUL, iterators=KINDS, kind="add"):
    return b.contract(lhs, rhs, acc, indexing_maps=maps, iterator_types=iterators, kind=kind)


def empty_loop(b, carried, yielded):
    with b.loop(0, 4, carry=[carried]) as loop:
        loop.yield_(yielded)


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
def test_refuses(case):
    build, code, message = REFUSED[case]
    b = vector.program("refused")
    with b:
        with pytest.raises(VectorError, match=message) as caught:
            build(b, Values(b))
        assert caught.value.code == code
        b.returns()


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


@pytest.mark.parametrize(
    ("build", "code", "text"),
    [
        (lambda b, v: b.elementwise("arith.addf", v), "E_ATTR_LENGTH", r"1 operands; expected lhs"),
        (lambda b, v: b.elementwise("arith.addq", v, v), "E_STRUCTURE", r"no op 'arith.addq', but"),
        (lambda b, v: b.elementwise("arith.addf", v, 1.0), "E_STRUCTURE", r"rhs is 1.0; expected"),
        (lambda b, v: b.empty([2.5], "f32"), "E_ELEMENT_TYPE", r"a size is 2.5"),
        (lambda b, v: b.argument("n", 4), "E_STRUCTURE", r"argument 'n' is 4; expected a type"),
    ],
)
def test_what_is_no_value_is_refused_by_name(build, code, text):
    with pytest.raises(VectorError, match=text) as error, vector.program("p") as b:
        build(b, b.argument("v", vector.vector((4,), "f32")))
    assert error.value.code == code


def test_a_program_is_named():
    with pytest.raises(VectorError, match="'a b': expected an identifier"), vector.program("a b"):
        pass


def returned_twice(b):
    v = b.argument("v", vector.vector((4,), "f32"))
    b.returns(v)
    b.returns(v)


def test_a_program_returns_once():
    with pytest.raises(VectorError, match="returns twice"), vector.program("p") as b:
        returned_twice(b)
