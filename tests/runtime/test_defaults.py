"""Initial values that a caller leaves out: as if nothing were combined yet."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.signature import Signature
from tvm_iree_ext.ops.base.natural_inits import identity
from tvm_iree_ext.ops.base.regions import NAMED, trace

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 33), np.float32)


@pytest.mark.parametrize("region", ["add", "max"])
def test_a_scan_begins_with_what_changes_nothing(region):
    kernel = ext.build(ops.scan(X.shape, region, dimension=1, inclusive=False))
    output, total = kernel(X)
    combine = {"add": np.add, "max": np.maximum}[region]
    start = {"add": 0, "max": -np.inf}[region]
    np.testing.assert_array_equal(output[:, 0], start)
    running = combine.accumulate(X, axis=1)
    np.testing.assert_allclose(output[:, 1:], running[:, :-1], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(output[:, -1], total)
    again = kernel(input=X, out=(np.empty_like(X), np.empty(5, np.float32)))
    np.testing.assert_array_equal(again[0], output)


@pytest.mark.parametrize(("region", "sign"), [(">", -1), ("<", 1)])
def test_a_top_k_is_of_the_values_alone(region, sign):
    values, places = ext.build(ops.topk(X.shape, 3, region=region))(X)
    order = np.argsort(sign * X, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(X, order, 1))


def test_an_extent_of_an_init_comes_from_what_is_there():
    kernel = ext.build(ops.topk(("rows", 33), k="k"))
    out = (np.empty((5, 2), np.float32), np.empty((5, 2), np.int32))
    values, _ = kernel(X, out=out)
    np.testing.assert_array_equal(values, -np.sort(-X, axis=1)[:, :2])
    with pytest.raises(CallError, match="output_values_init is missing, and its extent k follows"):
        kernel(X)


def test_arg_compare_is_argmax():
    value, index = ext.build(ops.arg_compare(X.shape, dimension=1))(X)
    np.testing.assert_array_equal(index, X.argmax(1))
    np.testing.assert_array_equal(value, X.max(1))
    op = ops.arg_compare((2, 4), dimension=1, dtype="int8", index_base=7)
    assert [one.default for one in op.signature.arguments] == [None, -128, 7]


def test_online_attention_begins_afresh():
    shape = (1, 2, 16, 8)
    query, key, value = RNG.standard_normal((3, *shape), np.float32)
    output, _, total = ext.build(ops.online_attention(shape, shape, shape))(query, key, value)
    whole = ext.build(ops.attention(shape, shape, shape))(query, key, value)
    np.testing.assert_allclose(output / total[..., None], whole, rtol=1e-4, atol=1e-5)


def test_tensors_of_pytorch_bring_their_own():
    torch = pytest.importorskip("torch")
    output, _ = ext.build(ops.scan(X.shape, dimension=1))(torch.from_numpy(X))
    np.testing.assert_allclose(output, X.cumsum(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "missing"),
    [
        (ops.scan((3, 4), "2 * arg0 + arg1"), "accumulator_init"),
        (ops.arg_compare((3, 4), index_base="operand"), "index_base, init_value, init_index"),
    ],
)
def test_what_has_no_natural_value_must_come(op, missing):
    with pytest.raises(CallError, match=f"{missing} missing; the arguments are"):
        ext.build(op)(np.zeros((3, 4), np.float32))


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int64", "bool"])
@pytest.mark.parametrize("name", ["add", "mul", "min", "max", "and", "or", "xor"])
def test_an_identity_changes_nothing(name, dtype):
    if (name in ("and", "or", "xor") and "float" in dtype) or (
        name in ("add", "mul") and dtype == "bool"
    ):
        return
    start = identity(trace("op", name, (dtype, dtype), dtype), dtype)
    init = np.array(float(start) if isinstance(start, str) else start).astype(dtype)
    limits = (0, 1) if dtype == "bool" else (0, 1, 100)
    functions = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
                 "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}  # fmt: skip
    assert functions.keys() <= NAMED.keys()
    for number in limits:
        element = np.array(number).astype(dtype)
        assert functions[name](init, element) == element


def test_a_manifest_keeps_defaults():
    signature = ops.topk((3, 4), 2).signature
    assert [one.default for one in signature.arguments] == [None, "-inf", 2**31 - 1]
    assert Signature.from_json(signature.to_json()) == signature
    data = signature.to_json()
    data[1]["default"] = "much"
    with pytest.raises(ValueError, match="operand 1 has the default 'much'"):
        Signature.from_json(data)
