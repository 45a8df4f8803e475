"""map_load and map_store: what a region may be, each rule with its message, canonical TensorIR."""

import numpy as np
import pytest
import tvm
from tvm import tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.ops import TensorType

F = "float32"
X = np.arange(12, dtype=F).reshape(3, 4)


def canonical(op, *arguments):
    """The result of the canonical PrimFunc."""
    cpu_pipeline.register()
    module = tvm.IRModule({op.entry: op.prim_func()})
    library = tvm.compile(module, target="llvm", tir_pipeline=cpu_pipeline.CPU_PIPELINE)
    bound = op.signature.bind(op.name, [a.shape for a in arguments])
    result = np.empty(op.signature.result_shapes(bound)[0], op.dtype)
    library[op.entry](*arguments, result)
    return result


def test_operands_and_attributes():
    load = ops.map_load((3, 4), (4, 3), "arg1, arg0, 0.5")
    assert str(load) == (
        "iree_linalg_ext.map_load(source: float32[3, 4]) -> (output: float32[4, 3])"
    )
    assert load.attributes == {"region": "arg1, arg0, T.float32(0.5)"}
    assert (load.flops(), load.bytes()) == (0, 2 * 4 * 12)
    store = ops.map_store((3, 4), (5, 3), "arg1, arg0, arg0 > 0")
    assert str(store) == (
        "iree_linalg_ext.map_store(input: float32[3, 4], output_init: float32[5, 3])"
        " -> (output: float32[5, 3])"
    )
    assert store.bytes() == 2 * 4 * 12 + 2 * 4 * 15


def test_a_region_is_a_callable_or_a_text():
    text = ops.map_load((3, 4), (12,), "arg0 // 4, arg0 % 4, 0.0")
    call = ops.map_load((3, 4), (12,), lambda i: (i // 4, i % 4, 0.0))
    assert call.attributes["region"].replace("(", "").replace(")", "").count("arg0") == 2
    np.testing.assert_array_equal(canonical(text, X), X.ravel())
    np.testing.assert_array_equal(canonical(call, X), X.ravel())


def test_a_region_may_name_extents():
    text = ops.map_load(("n", "m"), ("m", "n"), "n - 1 - arg1, arg0, 0.0")
    call = ops.map_load(("n", "m"), ("m", "n"), lambda i, j, n: (n - 1 - j, i, 0.0))
    for op in (text, call):
        np.testing.assert_array_equal(canonical(op, X), X[::-1].T)


def test_outside_of_the_source_is_padding():
    op = ops.map_load((3, 4), (5, 6), lambda i, j: (i - 1, j - 1, -1.0))
    np.testing.assert_array_equal(canonical(op, X), np.pad(X, 1, constant_values=-1))


def test_a_padding_may_depend_on_the_index():
    op = ops.map_load((3, 4), (2, 6), lambda i, j: (i, j, tirx.Select(i > 0, 8.0, 9.0)))
    want = np.concatenate([X[:2], [[9, 9], [8, 8]]], axis=1)
    np.testing.assert_array_equal(canonical(op, X), want)


def test_what_is_not_stored_keeps_the_init():
    init = np.full((4, 3), -1, F)
    op = ops.map_store((3, 4), (4, 3), "arg1 + 1, arg0, arg0 != 1")
    want = init.copy()
    want[1:, [0, 2]] = X[[0, 2], :3].T
    np.testing.assert_array_equal(canonical(op, X, init), want)


def test_scalars():
    load = ops.map_load((3, 4), (), lambda: (1, 2, 0.0))
    np.testing.assert_array_equal(canonical(load, X), X[1, 2])
    store = ops.map_store((1,), (), "arg0 == 0")
    np.testing.assert_array_equal(canonical(store, X[0, 3:], np.zeros((), F)), 3)


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (lambda i: (i, i, 0.0), "region takes 2 indices"),
        ("arg0, arg1", "region yields 2 values; expected 3: an index for each axis of source"),
        ("arg0", "region yields 1 values; expected 3: .*, and the padding"),
        ("arg0, 1.5, 0.0", "region yields 1.5 for the index 1; expected int64"),
        ("arg0, arg1 > 0, 0.0", "region yields 'bool' for the index 1; expected int64"),
        ("arg0, arg1, arg0", "region yields 'int64' for the padding; expected float32"),
        (lambda i, j: (i, j, None), "region yields None for the padding; expected float32"),
        ("arg0, n, 0.0", "'n' is unknown; arguments are arg0, arg1"),
    ],
)
def test_rules_of_the_region_of_map_load(region, message):
    with pytest.raises(OpError, match=message):
        ops.map_load((3, 4), (4, 3), region)


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ("arg0, arg1", "region yields 2 values; expected 3: an index for each axis of output"),
        ("arg0, arg1, 1", "region yields 1 for the mask; expected bool"),
        ("arg0, arg1, arg0", "region yields 'int64' for the mask; expected bool"),
    ],
)
def test_rules_of_the_region_of_map_store(region, message):
    with pytest.raises(OpError, match=message):
        ops.map_store((3, 4), (4, 3), region)


def test_rules_of_operands():
    i8 = TensorType((4, 3), "int8")
    with pytest.raises(OpError, match="output has dtype int8; expected float32 as source has"):
        ops.map_load((3, 4), i8, "arg1, arg0, 0.0")
    with pytest.raises(OpError, match="output has dtype int8; expected float32 as input has"):
        ops.map_store((3, 4), i8, "arg1, arg0, arg0 > 0")
    with pytest.raises(OpError, match="map_store: input is a scalar; expected rank 1 or more"):
        ops.map_store((), (4, 3), "0, 0, 1 > 0")
    with pytest.raises(
        OpError, match="output axis 0 has extent n; expected a number, or a name of"
    ):
        ops.map_load((3, 4), ("n", 3), "arg1, arg0, 0.0")
    with pytest.raises(OpError, match=r"region yields 0\.5 for the padding; expected int8"):
        ops.map_load(i8, (4, 3), "arg0, arg1, 0.5")
