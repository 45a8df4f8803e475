"""The cases of sort: ``sort_1024x4096_f32`` is rows, ``sort_kv`` float32 keys with int32 values.

Values are random; those of ``kv`` are the places, so that a stable sort has one result.
"""

from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.peers.iree_peer import iree_peer
from tvm_iree_ext.bench.peers.jax_peer import jax_peer
from tvm_iree_ext.bench.peers.mlir_text import tensor

_M = 1 << 20


def sort_cases() -> tuple[Case, ...]:
    """All of them, the small ones first."""
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = (
        ("4096", (4096,)),
        ("4x8000", (4, 8000)),
        ("1M", (_M,)),
        ("1024x4096", (1024, 4096)),
        ("16M", (16 * _M,)),
    )
    plain = [sort_case(name, shape, "float32") for name, shape in shapes]
    plain += [sort_case(name, shape, "int32") for name, shape in shapes[2:]]
    pairs = [sort_case(name, shape, "float32", values=True) for name, shape in shapes[2:4]]
    columns = sort_case("4096x1024_d0", (4096, 1024), "float32", dimension=0)
    region = "abs(arg0) <= abs(arg1)"
    other = sort_case("1M_by_magnitude", (_M,), "float32", region=region)
    return (*plain, *pairs, columns, other)


def sort_case(
    size: str,
    shape: tuple[int, ...],
    dtype: str,
    *,
    dimension: int = -1,
    values: bool = False,
    region: str = "<=",
) -> Case:
    """One case."""
    axis = dimension % len(shape)
    kinds = [dtype, "int32"] if values else [dtype]
    operands = [ops.TensorType(shape, kind) for kind in kinds]
    op = ops.sort(*operands, dimension=axis, region=region)
    by_magnitude = region.startswith("abs")

    def make() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        if dtype in dtypes.INTEGERS:
            limits = np.iinfo(dtype)
            keys = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        else:
            keys = rng.standard_normal(shape, np.float32).astype(dtype)
        places = np.arange(shape[axis], dtype=np.int32).reshape(
            [-1] + [1] * (len(shape) - 1 - axis)
        )
        return {"operand0": keys} | (
            {"operand1": np.broadcast_to(places, shape).copy()} if values else {}
        )

    return Case(
        name=f"sort_kv_{size}" if values else f"sort_{size}_{dtypes.mlir_name(dtype)}",
        op=op,
        operands=make,
        check=lambda given: _check(given, axis, by_magnitude),
        peers=(
            Peer(NUMPY, lambda given: _numpy(given, axis, by_magnitude)),
            Peer(TORCH, lambda given: _torch(given, axis, by_magnitude)),
            jax_peer(lambda *arrays: _jax(arrays, axis, by_magnitude)),
            *([iree_peer(op, _mlir(shape, axis))] if shape == (4096,) else []),  # quadratic
        ),
    )


def _mlir(shape: tuple[int, ...], axis: int) -> str:
    kind = tensor(shape)
    return f"""
  %sorted = iree_linalg_ext.sort dimension({axis}) outs(%operand0 : {kind}) {{
  ^bb0(%a: f32, %b: f32):
    %before = arith.cmpf ole, %a, %b : f32
    iree_linalg_ext.yield %before : i1
  }} -> {kind}
  return %sorted : {kind}"""


def _check(values: Values, axis: int, by_magnitude: bool) -> Check:
    arrays = tuple(values.values())
    keys = np.abs(arrays[0]) if by_magnitude else arrays[0]
    if by_magnitude or len(arrays) > 1:
        order = np.argsort(keys, axis=axis, kind="stable")
        want = tuple(np.take_along_axis(array, order, axis) for array in arrays)
    else:
        want = (np.sort(keys, axis=axis),)

    def check(result: object) -> str | None:
        several = result if isinstance(result, tuple) else (result,)
        for number, (got, right) in enumerate(zip(several, want, strict=True)):
            if not np.array_equal(np.asarray(got), right):
                return f"result{number} is not sorted as NumPy sorts it"
        return None

    return check


def _numpy(values: Values, axis: int, by_magnitude: bool) -> Call:
    """``numpy.sort``; of keys and values as one number, of magnitudes by ``numpy.argsort``."""
    arrays = tuple(values.values())
    if by_magnitude:

        def call() -> tuple[np.ndarray, ...]:
            order = np.argsort(np.abs(arrays[0]), axis=axis, kind="stable")
            return (np.take_along_axis(arrays[0], order, axis),)

        return call
    if len(arrays) > 1:
        return lambda: _sorted_pairs(arrays[0], arrays[1], axis)
    return lambda: (np.sort(arrays[0], axis=axis),)


def _sorted_pairs(keys: np.ndarray, values: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """Float32 keys above places in one integer: several times as fast as ``argsort``.

    It is a stable sort, as keys that are alike go by their places.
    """
    high, sign = np.uint32(0xFFFFFFFF), np.uint32(0x80000000)
    bits = keys.view(np.uint32)
    pairs = (bits ^ np.where(bits & sign, high, sign)).astype(np.uint64)
    pairs <<= np.uint64(32)
    pairs |= values.view(np.uint32)
    pairs.sort(axis=axis)
    bits = (pairs >> np.uint64(32)).astype(np.uint32)
    bits ^= np.where(bits & sign, sign, high)
    return bits.view(np.float32), pairs.astype(np.uint32).view(np.int32)


def _jax(arrays: tuple[Any, ...], axis: int, by_magnitude: bool) -> tuple[Any, ...]:
    """``jax.lax.sort``, which takes values along."""
    import jax

    if by_magnitude:
        return jax.lax.sort((abs(arrays[0]), *arrays), axis, num_keys=1)[1:]
    return jax.lax.sort(arrays, axis, num_keys=1)


def _torch(values: Values, axis: int, by_magnitude: bool) -> Call:
    """``torch.sort``, which gives the places, too."""
    import torch

    keys, *rest = (torch.from_numpy(value) for value in values.values())

    def call() -> tuple[np.ndarray, ...]:
        with torch.inference_mode():
            _, order = torch.sort(keys.abs() if by_magnitude else keys, dim=axis, stable=True)
            return tuple(torch.gather(x, axis, order).numpy() for x in (keys, *rest))

    def plain() -> tuple[np.ndarray, ...]:
        with torch.inference_mode():
            return (torch.sort(keys, dim=axis).values.numpy(),)

    return call if rest or by_magnitude else plain
