"""The cases of arg_compare: the largest float32 of each line, or the smallest, and where it is.

``argmax_4096x4096_d1`` is along dimension 1; ``vector_argmin`` is the op of vectors.  Peers give
the index only, or both, as they do.
"""

from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.peers.iree_peer import iree_peer
from tvm_iree_ext.bench.peers.jax_peer import jax_peer
from tvm_iree_ext.bench.peers.mlir_text import affine, tensor
from tvm_iree_ext.bench.peers.onnx_runtime import onnx_type, ort_peer
from tvm_iree_ext.catalog.base.entry import EXACT
from tvm_iree_ext.ops.families.arg_compare.arg_compare import ArgCompare


def arg_compare_cases() -> tuple[Case, ...]:
    """All of them."""
    kinds = [((4096, 4096), 1), ((4096, 4096), 0), ((2**24,), 0)]
    vectors = [arg_case(shape, dimension, "vector_argmin") for shape, dimension in kinds[:2]]
    return (*(arg_case(shape, dimension) for shape, dimension in kinds), *vectors)


def arg_case(shape: tuple[int, ...], dimension: int, name: str = "argmax") -> Case:
    """One case."""
    if name == "argmax":
        op = ops.arg_compare(shape, ">", dimension=dimension, index_dtype="int64")
    else:
        op = ops.vector_ext.arg_compare(shape, "<", dimension=dimension)
    size = "16M" if shape == (2**24,) else "x".join(map(str, shape))

    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        line = (*shape[:dimension], *shape[dimension + 1 :])
        return {
            "input_value": rng.standard_normal(shape, np.float32),
            "init_value": np.full(line, -np.inf if name == "argmax" else np.inf, np.float32),
            "init_index": np.full(line, -1, np.int64),
        }

    return Case(
        name=f"{name}_{size}_d{dimension}",
        op=op,
        operands=operands,
        check=lambda values: _check(op, values),
        peers=(
            Peer(NUMPY, lambda values: numpy_arg(op, values)),
            Peer(TORCH, lambda values: torch_arg(op, values)),
            iree_peer(op, _mlir(op)),
            ort_peer(op, *_nodes(op)),
            jax_peer(lambda x, *_: jax_arg(op, x)),
        ),
    )


def _check(op: ArgCompare, values: Values) -> Check:
    find = np.argmax if op.comparison == ">" else np.argmin
    want = np.asarray(find(values["input_value"], axis=op.dimension))

    def check(result: Any) -> str | None:
        got = np.asarray(result[1] if isinstance(result, tuple) else result)
        got = got.reshape(want.shape)  # a peer may keep the dimension
        return first_difference("index", got, want, EXACT) or None

    return check


def _mlir(op: ArgCompare) -> str:
    """A reduction with two results, in the order of the elements."""
    operands = [(tensor(one.shape, one.dtype), one.dtype) for one in op.signature.operands]
    (source, _), (best, _), (place, index), *_ = operands
    dims = ["i", "j"][: len(op.type.shape)]
    rest = ", ".join(dims[: op.dimension] + dims[op.dimension + 1 :])
    maps = affine(", ".join(dims), ", ".join(dims), rest, rest)
    kinds = ["parallel"] * len(op.type.shape)
    kinds[op.dimension] = "reduction"
    iterators = ", ".join(f'"{kind}"' for kind in kinds)
    compare, kind = ("ogt" if op.comparison == ">" else "olt"), dtypes.mlir_name(index)
    return f"""
  %found:2 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
    ins(%input_value : {source}) outs(%init_value, %init_index : {best}, {place}) {{
  ^bb0(%element: f32, %best: f32, %place: {kind}):
    %position = linalg.index {op.dimension} : index
    %here = arith.index_cast %position : index to {kind}
    %better = arith.cmpf {compare}, %element, %best : f32
    %value = arith.select %better, %element, %best : f32
    %where = arith.select %better, %here, %place : {kind}
    linalg.yield %value, %where : f32, {kind}
  }} -> ({best}, {place})
  return %found#0, %found#1 : {best}, {place}"""


def _nodes(op: ArgCompare) -> tuple[str, str]:
    """The index, and the value there."""
    shape = list(op.type.shape)
    shape[op.dimension] = 1
    find = "ArgMax" if op.comparison == ">" else "ArgMin"
    nodes = f"""place = {find} <axis = {op.dimension}, keepdims = 1> (input_value)
  best = GatherElements <axis = {op.dimension}> (input_value, place)"""
    return nodes, f"{onnx_type(shape)} best, {onnx_type(shape, 'int64')} place"


def jax_arg(op: ArgCompare, x: Any) -> tuple[Any, Any]:
    """``jax.numpy.argmax`` or ``argmin``, and the values there."""
    import jax.numpy as jnp

    find = jnp.argmax if op.comparison == ">" else jnp.argmin
    index = find(x, axis=op.dimension, keepdims=True)
    value = jnp.take_along_axis(x, index, op.dimension, mode="promise_in_bounds")
    return value.squeeze(op.dimension), index.squeeze(op.dimension)


def numpy_arg(op: ArgCompare, values: Values) -> Call:
    """``numpy.argmax`` or ``argmin``, and the values there."""
    x, dimension = values["input_value"], op.dimension
    find = np.argmax if op.comparison == ">" else np.argmin

    def call() -> tuple[np.ndarray, np.ndarray]:
        index = find(x, axis=dimension, keepdims=True)
        value = np.take_along_axis(x, index, axis=dimension)
        return value.squeeze(dimension), index.squeeze(dimension)

    return call


def torch_arg(op: ArgCompare, values: Values) -> Call:
    """``torch.max`` or ``min``, which gives both."""
    import torch

    x, dimension = torch.from_numpy(values["input_value"]), op.dimension
    find = torch.max if op.comparison == ">" else torch.min

    def call() -> Any:
        with torch.inference_mode():
            value, index = find(x, dim=dimension)
        return value.numpy(), index.numpy()

    return call
