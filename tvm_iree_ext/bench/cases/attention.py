"""The cases of attention.

``attn_h8_s1024_d64_f32`` is one batch of 8 heads, 1024 queries and keys, head dim 64.  ``_mask``
adds a float mask of queries x keys, of the operands' type and with no value that could be skipped;
``_causal`` leaves out the keys after a query, and its flops.  ``decode`` is one query.
``online_attn`` is a step of the online op over all keys.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.peers.iree_peer import DATA_TILING, iree_peer
from tvm_iree_ext.bench.peers.jax_peer import jax_peer
from tvm_iree_ext.bench.peers.mlir_text import affine, filled, tensor
from tvm_iree_ext.bench.peers.onnx_runtime import ort_peer
from tvm_iree_ext.bench.peers.torch_compile import compiled_peer
from tvm_iree_ext.ops.families.attention.attention import Attention

Form = Literal["", "mask", "causal"]

_CHECKED_HEADS = 2
_CHECKED_ROWS = 16


def attention_cases() -> tuple[Case, ...]:
    """All of them, the small ones first."""
    shapes = ((8, 1024, 64), (16, 2048, 128))
    types: tuple[str, ...] = ("float32", "float16", "bfloat16")
    forms: tuple[Form, ...] = ("", "mask", "causal")
    square = [
        attention_case(heads, length, length, dim, dtype, form)
        for heads, length, dim in shapes
        for dtype in types
        for form in forms
    ]
    decode = [attention_case(32, 1, 4096, 128, dtype) for dtype in types]
    return (*square[:9], online_case(8, 1024, 64), *decode, *square[9:])


def attention_case(
    heads: int, queries: int, keys: int, head_dim: int, dtype: str, form: Form = ""
) -> Case:
    """One case, of a single batch."""
    query, key = (1, heads, queries, head_dim), (1, heads, keys, head_dim)
    mask: tuple[int, ...] | None = (queries, keys) if form == "mask" else None
    op = ops.attention(
        query,
        key,
        key,
        dtype=dtype,
        mask=None if mask is None else ops.TensorType(mask, dtype),
        causal=form == "causal",
    )
    kind = "attn_decode" if queries == 1 else "attn"
    name = f"{kind}_h{heads}_s{keys}_d{head_dim}_{dtypes.mlir_name(dtype)}"

    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        inputs: dict[str, tuple[int, ...]] = {"query": query, "key": key, "value": key}
        if mask is not None:
            inputs["mask"] = mask
        return {
            name: rng.standard_normal(shape, np.float32).astype(dtypes.numpy_dtype(dtype))
            for name, shape in inputs.items()
        }

    return Case(
        name=f"{name}_{form}" if form else name,
        op=op,
        operands=operands,
        check=lambda values: _check(op, values, form == "causal"),
        compute_dtype=dtype,
        peers=(
            Peer(NUMPY, lambda values: numpy_attention(values, form == "causal")),
            Peer(TORCH, lambda values: torch_attention(values, form == "causal")),
            *_iree(op, (heads, queries, keys, head_dim), form),
            *_ort(op, form),
            jax_peer(lambda *arrays: jax_attention(*arrays, causal=form == "causal")),
        ),
    )


def online_case(heads: int, length: int, dim: int) -> Case:
    """A step of online attention over all keys, from the state at the start."""
    shape = (1, heads, length, dim)
    op = ops.online_attention(shape, shape, shape)

    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        values = {
            name: rng.standard_normal(shape, np.float32) for name in ("query", "key", "value")
        }
        rows = shape[:3]
        return {
            **values,
            "output_init": np.zeros(shape, np.float32),
            "max_init": np.full(rows, -np.inf, np.float32),
            "sum_init": np.zeros(rows, np.float32),
        }

    def check_of(values: Values) -> Check:
        finished = _check(ops.attention(shape, shape, shape), values, causal=False)

        def check(result: tuple[Any, Any, Any]) -> str | None:
            output, _, total = map(as_numpy, result)
            return finished(output / total[..., None])

        return check

    return Case(
        name=f"online_attn_h{heads}_s{length}_d{dim}",
        op=op,
        operands=operands,
        check=check_of,
        peers=(
            Peer(NUMPY, numpy_online),
            Peer(TORCH, torch_online),
            compiled_peer(torch_online_step),
            jax_peer(jax_online_step),
        ),
    )


def numpy_online(values: Values) -> Call:
    """The step's formula; scores in memory that stays."""
    query, key, value = (values[name] for name in ("query", "key", "value"))
    scale = np.float32(1 / math.sqrt(query.shape[-1]))
    scores = np.empty((*query.shape[:3], key.shape[2]), np.float32)

    def call() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        np.matmul(query * scale, key.swapaxes(-1, -2), out=scores)
        largest = np.maximum(values["max_init"], scores.max(axis=-1))
        np.subtract(scores, largest[..., None], out=scores)
        np.exp(scores, out=scores)
        shrink = np.exp(values["max_init"] - largest)
        total = shrink * values["sum_init"] + scores.sum(axis=-1)
        output = shrink[..., None] * values["output_init"] + np.matmul(scores, value)
        return output, largest, total

    return call


def torch_online(values: Values) -> Call:
    """The step's formula, operation by operation: PyTorch has no such function."""
    import torch

    tensors = [torch.from_numpy(array) for array in values.values()]

    def call() -> Any:
        with torch.inference_mode():
            return torch_online_step(*tensors)

    return call


def torch_online_step(*arrays: Any) -> Any:
    """The step by PyTorch."""
    import torch

    return _online_step(torch, *arrays)


def jax_online_step(*arrays: Any) -> Any:
    """The step by JAX."""
    import jax.numpy as jnp

    return _online_step(jnp, *arrays)


def _online_step(xp: Any, q: Any, k: Any, v: Any, output: Any, largest: Any, total: Any) -> Any:
    """The step's formula, in the words that libraries of arrays share."""
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.mT
    newest = xp.maximum(largest, xp.amax(scores, -1))
    weights = xp.exp(scores - newest[..., None])
    shrink = xp.exp(largest - newest)
    summed = shrink * total + weights.sum(-1)
    return shrink[..., None] * output + weights @ v, newest, summed


def _check(op: Attention, values: Values, causal: bool) -> Check:
    """Some rows of some heads, spread evenly, against the reference in float64.

    The rows of a causal op are those of an op that hides the later keys by a mask.
    """
    queries, keys = values["query"].shape[2], values["key"].shape[2]
    rows = np.unique(np.linspace(0, queries - 1, min(queries, _CHECKED_ROWS)).astype(int))
    heads = np.unique(np.array([0, values["query"].shape[1] - 1])[:_CHECKED_HEADS])
    part = {name: values[name][:, heads] for name in ("key", "value")}
    part["query"] = values["query"][:, heads][:, :, rows]
    if causal:
        part["mask"] = np.arange(keys) <= rows[:, None]
    elif "mask" in values:
        part["mask"] = values["mask"][rows]
    part_op = ops.attention(part["query"], part["key"], part["value"], mask=part.get("mask"))
    entry = registry.find(op.name)
    want = entry.reference(part_op, part)["output"]
    allowed = entry.tolerance(part_op, part, {"output": want})["output"]

    def check(result: Any) -> str | None:
        got = as_numpy(result)
        if got.shape != values["query"].shape:
            return f"output has shape {got.shape}, expected {values['query'].shape}"
        part_of_it = got[:, heads][:, :, rows]
        return first_difference("output of the checked rows", part_of_it, want, allowed) or None

    return check


def as_numpy(result: Any) -> np.ndarray:
    """A result as a NumPy array, without copying."""
    if isinstance(result, np.ndarray) or not hasattr(result, "dtype"):
        return np.asarray(result)
    import torch

    if result.dtype == torch.bfloat16:
        return result.view(torch.int16).numpy().view(dtypes.numpy_dtype("bfloat16"))
    return result.numpy()


def numpy_attention(values: Values, causal: bool) -> Call:
    """The formula in float32, with scores in memory that stays; conversions count as work."""
    query, key, value = (values[name] for name in ("query", "key", "value"))
    scale = np.float32(1 / math.sqrt(query.shape[-1]))
    mask = values.get("mask")
    scores = np.empty((*query.shape[:3], key.shape[2]), np.float32)
    if causal:
        hidden = np.full((query.shape[2], key.shape[2]), -np.inf, np.float32)
        mask = np.triu(hidden, 1)

    def call() -> np.ndarray:
        q, k, v = (x.astype(np.float32, copy=False) for x in (query, key, value))
        np.matmul(q * scale, k.swapaxes(-1, -2), out=scores)
        if mask is not None:
            np.add(scores, mask.astype(np.float32, copy=False), out=scores)
        np.subtract(scores, scores.max(axis=-1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        total = scores.sum(axis=-1, keepdims=True)
        return (np.matmul(scores, v) / total).astype(query.dtype, copy=False)

    return call


def _iree(op: Attention, extents: tuple[int, int, int, int], form: Form) -> list[Peer]:
    """Two contractions and a softmax: IREE's attention takes many times as long on a CPU."""
    if form or op.signature.operands[0].dtype != "float32":
        return []
    heads, queries, keys, dim = extents
    scores, rows, columns = (heads, queries, keys), (heads, queries, dim), (heads, keys, dim)
    score, row, column, result = map(tensor, (scores, rows, columns, (1, *rows)))
    flat = "[[0, 1], [2], [3]]"
    first = affine("h, q, k, d", "h, q, d", "h, k, d", "h, q, k")
    second = affine("h, q, d, k", "h, q, k", "h, k, d", "h, q, d")
    body = f"""
  %q = tensor.collapse_shape %query {flat} : {result} into {row}
  %k = tensor.collapse_shape %key {flat} : {tensor((1, *columns))} into {column}
  %v = tensor.collapse_shape %value {flat} : {tensor((1, *columns))} into {column}
  {filled("none", 0.0, scores)}
  %products = linalg.contract indexing_maps = [{first}]
    ins(%q, %k : {row}, {column}) outs(%none : {score}) -> {score}
  %scale = arith.constant dense<{1 / math.sqrt(dim)}> : {score}
  %scores = arith.mulf %products, %scale : {score}
  %shares = linalg.softmax dimension(2)
    ins(%scores : {score}) outs(%none_empty : {score}) -> {score}
  {filled("zero", 0.0, rows)}
  %sums = linalg.contract indexing_maps = [{second}]
    ins(%shares, %v : {score}, {column}) outs(%zero : {row}) -> {row}
  %result = tensor.expand_shape %sums {flat} output_shape {[1, *rows]} : {row} into {result}
  return %result : {result}"""
    return [iree_peer(op, body, [DATA_TILING])]


def torch_attention(values: Values, causal: bool) -> Call:
    """``torch.nn.functional.scaled_dot_product_attention``."""
    import torch

    def tensor(array: np.ndarray) -> Any:
        if array.dtype == dtypes.numpy_dtype("bfloat16"):
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    q, k, v = (tensor(values[name]) for name in ("query", "key", "value"))
    mask = tensor(values["mask"]) if "mask" in values else None
    attend: Callable[..., Any] = torch.nn.functional.scaled_dot_product_attention

    def call() -> Any:
        with torch.inference_mode():
            return attend(q, k, v, attn_mask=mask, is_causal=causal)

    return call


def _ort(op: Attention, form: Form) -> list[Peer]:
    """The op Attention, which has no kernel for bfloat16."""
    operands = op.signature.arguments
    if operands[0].dtype == "bfloat16":
        return []
    causal = " <is_causal = 1>" if form == "causal" else ""
    names = ", ".join(operand.name for operand in operands)
    return [ort_peer(op, f"  output = Attention{causal} ({names})")]


def jax_attention(query: Any, key: Any, value: Any, mask: Any = None, *, causal: bool) -> Any:
    """The formula; weights are rounded to the operands' type, as ``jax.nn`` has it."""
    import jax.numpy as jnp
    from jax.nn import softmax

    wide = {"preferred_element_type": jnp.float32}
    scores = jnp.einsum("bhqd,bhkd->bhqk", query, key, **wide) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores += mask
    if causal:
        rows, columns = scores.shape[-2:]
        scores = jnp.where(jnp.tri(rows, columns, dtype=bool), scores, -jnp.inf)
    weights = softmax(scores).astype(query.dtype)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, value, **wide).astype(query.dtype)
