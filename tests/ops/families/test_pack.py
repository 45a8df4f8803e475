"""What pack and unpack accept and refuse, in which words, and their canonical TensorIR."""

import numpy as np
import pytest
import tvm

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops import TensorType


def tiled(**changed):
    return {"inner_dims_pos": [0, 1], "inner_tiles": [8, 32]} | changed


@pytest.mark.parametrize(
    ("source", "attributes", "packed"),
    [
        ((128, 256), {"inner_dims_pos": [1, 0], "inner_tiles": [32, 8]}, (16, 8, 32, 8)),
        ((128, 256), {}, (16, 8, 8, 32)),
        ((128, 256), {"outer_dims_perm": [1, 0], "inner_tiles": [32, 8]}, (32, 4, 32, 8)),
        ((13, 15), {"inner_tiles": [8, 2], "padding_value": 0}, (2, 8, 8, 2)),
        ((3, 5), {"inner_dims_pos": [], "inner_tiles": [], "outer_dims_perm": [1, 0]}, (5, 3)),
        (("rows", 64), {"padding_value": 0}, ("ceildiv(rows, 8)", 2, 8, 32)),
        (("?", 64), {"inner_tiles": ["?", 32]}, ("ceildiv(d0, tile0)", 2, "tile0", 32)),
    ],
)
def test_packed_shapes(source, attributes, packed):
    op = ops.pack(source, **tiled(**attributes))
    assert op.signature.results[0].shape == packed
    assert op.flops() == 0


def test_a_result_is_as_the_output_shape_says():
    op = ops.pack((16, 64), (3, 2, 8, "?"), **tiled())
    assert op.signature.results[0].shape == (3, 2, 8, 32)
    op = ops.unpack((3, 2, "?", "t"), (20, 50), **tiled(inner_tiles=[8, "t"]))
    assert op.signature.arguments[0].shape == (3, 2, 8, "t")


def test_the_padding_value_is_a_number_or_an_operand():
    constant = ops.pack((5, 7), **tiled(padding_value=-1.0))
    assert constant.attributes["padding_value"] == -1.0
    assert [o.name for o in constant.signature.arguments] == ["input"]
    passed = ops.pack((5, 7), **tiled(padding_value="operand"), dtype="i16")
    assert [str(o) for o in passed.signature.arguments][1] == "padding_value: int16[]"
    assert ops.pack((5, 7), **tiled(padding_value=np.float32(2))).padding == 2.0
    assert ops.pack((5, 7), **tiled(padding_value=np.inf)).attributes["padding_value"] == "inf"


def test_bytes_count_both_operands():
    assert ops.pack((5, 7), **tiled(padding_value=0)).bytes() == 4 * (35 + 8 * 32)
    dynamic = ops.pack(("n", 7), **tiled(padding_value=0))
    assert dynamic.bytes({"n": 9}) == 4 * (63 + 2 * 8 * 32)


REFUSED = {
    "zero tile": (lambda: ops.pack((8, 32), **tiled(inner_tiles=[0, 32])), "inner tile 0 is not a"),
    "tile's name": (
        lambda: ops.pack((8, 32), **tiled(inner_tiles=["a b", 32])),
        "inner tile 'a b' is not a name",
    ),
    "twice tiled": (
        lambda: ops.pack((8, 32), **tiled(inner_dims_pos=[1, 1])),
        r"inner_dims_pos \[1, 1\] has a dim twice",
    ),
    "no such dim": (
        lambda: ops.pack((8, 32), **tiled(inner_dims_pos=[0, 2])),
        "inner_dims_pos has 2; expected dims from 0 to 1",
    ),
    "order twice": (
        lambda: ops.pack((8, 32), **tiled(outer_dims_perm=[0, 0])),
        r"outer_dims_perm \[0, 0\] has a dim twice",
    ),
    "order's dims": (
        lambda: ops.pack((8, 32), **tiled(outer_dims_perm=[0, -1])),
        "outer_dims_perm has -1; expected dims from 0 to 1",
    ),
    "order's length": (
        lambda: ops.pack((8, 32), **tiled(outer_dims_perm=[0])),
        "outer_dims_perm has 1 dims; expected all 2, or none",
    ),
    "tiles and positions": (
        lambda: ops.pack((8, 32), **tiled(inner_tiles=[8])),
        "1 inner_tiles; expected one for each of the 2 inner_dims_pos",
    ),
    "more tiles than dims": (
        lambda: ops.pack((8,), **tiled()),
        "2 inner_dims_pos; there are only 1 dims to tile",
    ),
    "rank 0": (lambda: ops.pack((), **tiled()), "rank 0; expected at least 1"),
    "a partial tile": (
        lambda: ops.pack((8, 33), **tiled()),
        "input axis 1 has extent 33, which tiles of 32 do not divide; a padding_value is needed",
    ),
    "packed rank": (
        lambda: ops.unpack((1, 1, 8), (8, 32), **tiled()),
        r"input \[1, 1, 8\] has rank 3; expected 4: 2 outer axes and 2 of the tile",
    ),
    "result's rank": (
        lambda: ops.pack((8, 32), (1, 1, 8), **tiled()),
        r"output_shape \[1, 1, 8\] has rank 3; expected 4",
    ),
    "too few tiles": (
        lambda: ops.unpack((1, 1, 8, 32), (9, 32), **tiled()),
        "input axis 0 has extent 1; expected at least 2 tiles",
    ),
    "too few tiles to hold all": (
        lambda: ops.pack((8, 33), (1, 1, 8, 32), **tiled(padding_value=0)),
        "output_shape axis 1 has extent 1; expected at least 2 tiles",
    ),
    "tile's extent": (
        lambda: ops.unpack((1, 1, 8, 16), (8, 32), **tiled()),
        "input axis 3 has extent 16; expected 32 as in inner_tiles",
    ),
    "dynamic tile of static extent": (
        lambda: ops.unpack((1, 1, 8, 32), (8, 32), **tiled(inner_tiles=[8, "t"])),
        "input axis 3 has extent 32; expected t as in inner_tiles",
    ),
    "padding's dtype": (
        lambda: ops.pack((8, 33), **tiled(padding_value=np.int32(1))),
        "padding_value has dtype int32; expected float32",
    ),
    "padding's kind": (
        lambda: ops.pack((8, 33), **tiled(padding_value=1.5), dtype="i8"),
        "padding_value is 1.5; expected a number of type int8",
    ),
    "padding's range": (
        lambda: ops.pack((8, 33), **tiled(padding_value=-1), dtype="ui8"),
        "padding_value is -1; expected a number of type uint8",
    ),
    "bool's padding": (
        lambda: ops.pack((8, 33), **tiled(padding_value=1), dtype="i1"),
        "padding_value is 1; expected a number of type bool",
    ),
    "dtype": (lambda: ops.pack((8, 32), **tiled(), dtype="f7"), "dtype 'f7' is unknown"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_and_says_why(case):
    make, message = REFUSED[case]
    with pytest.raises(OpError, match=message):
        make()


def run_canonical(op, *arguments, out):
    """The result of the unscheduled PrimFunc."""
    library = tvm.compile(tvm.IRModule({op.entry: op.prim_func()}), target="llvm")
    tensors = [tvm.runtime.tensor(a) if isinstance(a, np.ndarray) else a for a in arguments]
    result = tvm.runtime.tensor(out)
    library[op.entry](*tensors, result)
    return result.numpy()


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint64"])
def test_the_canonical_function_is_the_op(dtype):
    source = np.arange(5 * 7 * 3).reshape(5, 7, 3).astype(dtype)
    tiling = {"inner_dims_pos": [2, 0], "inner_tiles": [2, 4], "outer_dims_perm": [1, 2, 0]}
    op = ops.pack(("n", 7, 3), **tiling, padding_value="operand", dtype=dtype)
    packed = np.zeros((7, 2, 2, 2, 4), dtype)
    want = registry.find("pack").reference(op, {"input": source, "padding_value": 9})["result"]
    np.testing.assert_array_equal(run_canonical(op, source, 9, out=packed), want)
    back = ops.unpack(packed, source.shape, **tiling)
    np.testing.assert_array_equal(run_canonical(back, want, out=np.zeros_like(source)), source)


def test_the_blocks_can_be_scheduled():
    op = ops.pack(TensorType((13, 15), "f16"), **tiled(inner_tiles=[8, 2], padding_value=1.5))
    sch = tvm.s_tir.Schedule(op.prim_func())
    loops = sch.get_loops(sch.get_sblock("pack"))
    sch.reorder(*loops[::-1])
    sch.parallel(loops[-1])
    assert len(loops) == 4
