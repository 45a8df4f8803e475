"""The cases of scans: running sums of float32.

``scan_4096x4096_d1_incl`` is along dimension 1, inclusive, in the order of the definition;
``_any`` may be reassociated.  NumPy's and PyTorch's sums are inclusive: where the op is exclusive,
they compute all but the last and move it by one.
"""

from typing import Any

import numpy as np

from tvm_iree_ext import ops, registry
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.base.signature import shape_text
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.peers.iree_peer import iree_peer
from tvm_iree_ext.bench.peers.jax_peer import jax_peer
from tvm_iree_ext.bench.peers.mlir_text import tensor
from tvm_iree_ext.bench.peers.onnx_runtime import axes, onnx_type, ort_peer
from tvm_iree_ext.ops.families.scan import Scan

_CHECKED_LINES = 8


def scan_cases() -> tuple[Case, ...]:
    """All of them."""
    kinds = [((4096, 4096), 1), ((4096, 4096), 0), ((2**24,), 0)]
    return tuple(
        scan_case(shape, dimension, inclusive=inclusive, reassociate=reassociate)
        for shape, dimension in kinds
        for inclusive in (True, False)
        for reassociate in (False, True)
        if not reassociate or dimension == len(shape) - 1
    )


def scan_case(
    shape: tuple[int, ...], dimension: int, *, inclusive: bool, reassociate: bool = False
) -> Case:
    """One case."""
    op = ops.scan(shape, dimension=dimension, inclusive=inclusive, reassociate=reassociate)
    size = "16M" if shape == (2**24,) else "x".join(map(str, shape))
    name = f"scan_{size}_d{dimension}_{'incl' if inclusive else 'excl'}"

    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        line = (*shape[:dimension], *shape[dimension + 1 :])
        return {
            "input": rng.standard_normal(shape, np.float32),
            "accumulator_init": np.asarray(rng.standard_normal(line, np.float32)),
        }

    return Case(
        name=f"{name}_any" if reassociate else name,
        op=op,
        operands=operands,
        check=lambda values: _check(op, values),
        peers=(
            Peer(NUMPY, lambda values: numpy_scan(op, values)),
            Peer(TORCH, lambda values: torch_scan(op, values)),
            iree_peer(op, _mlir(op)),
            ort_peer(op, _nodes(op), f"{onnx_type(shape)} output"),
            jax_peer(lambda x, init: jax_scan(op, x, init)),
        ),
    )


def _check(op: Scan, values: Values) -> Check:
    """Some lines, spread evenly, against the sums in float64."""
    dimension = op.dimension
    lines = np.moveaxis(values["input"], dimension, -1)
    count = lines.shape[0] if lines.ndim > 1 else 1
    chosen = np.unique(np.linspace(0, count - 1, min(count, _CHECKED_LINES)).astype(int))
    part = lines[chosen] if lines.ndim > 1 else lines
    init = values["accumulator_init"]
    operands = {"input": part, "accumulator_init": init[chosen] if lines.ndim > 1 else init}
    loose = ops.scan(part, dimension=part.ndim - 1, inclusive=op.inclusive, reassociate=True)
    want = part.astype(np.float64).cumsum(axis=-1)
    if not op.inclusive:
        start = operands["accumulator_init"].astype(np.float64)[..., None]
        want = np.concatenate([start, start + want[..., :-1]], axis=-1)
    limit = registry.find(op.name).tolerance(loose, operands, {"output": want})["output"]

    def check(result: Any) -> str | None:
        got = np.asarray(result[0] if isinstance(result, tuple) else result)
        if got.shape != values["input"].shape:
            expected = shape_text(values["input"].shape)
            return f"output has shape {shape_text(got.shape)}, expected {expected}"
        found = np.moveaxis(got, dimension, -1)
        found = found[chosen] if found.ndim > 1 else found
        return first_difference("output of the checked lines", found, want, limit) or None

    return check


def _mlir(op: Scan) -> str:
    kind, line = (tensor(one.shape, one.dtype) for one in op.signature.arguments)
    inclusive = str(op.inclusive).lower()
    return f"""
  %empty = tensor.empty() : {kind}
  %scanned:2 = iree_linalg_ext.scan dimension({op.dimension}) inclusive({inclusive})
    ins(%input : {kind}) outs(%empty, %accumulator_init : {kind}, {line}) {{
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    iree_linalg_ext.yield %sum : f32
  }} -> {kind}, {line}
  return %scanned#0, %scanned#1 : {kind}, {line}"""


def _nodes(op: Scan) -> str:
    """ONNX's exclusive sums begin with 0."""
    if op.inclusive:
        return f"""{axes("axis", op.dimension)}
  output = CumSum (input, axis)"""
    return f"""{axes("axis", op.dimension)}
  sums = CumSum <exclusive = 1> (input, axis)
  start = Unsqueeze (accumulator_init, axis)
  output = Add (sums, start)"""


def jax_scan(op: Scan, x: Any, init: Any) -> Any:
    """``jax.numpy.cumsum``; the first of exclusive sums is the accumulator."""
    import jax
    import jax.numpy as jnp

    if op.inclusive:
        return jnp.cumsum(x, axis=op.dimension)
    start = jnp.expand_dims(init, op.dimension)
    head = jax.lax.slice_in_dim(x, 0, x.shape[op.dimension] - 1, axis=op.dimension)
    return jnp.cumsum(jnp.concatenate([start, head], op.dimension), axis=op.dimension)


def numpy_scan(op: Scan, values: Values) -> Call:
    """``numpy.cumsum``; results in memory that stays."""
    x, init, dimension = values["input"], values["accumulator_init"], op.dimension
    result = np.empty_like(x)
    first = np.moveaxis(result, dimension, 0)[:1]
    rest = np.moveaxis(np.moveaxis(result, dimension, 0)[1:], 0, dimension)
    head = np.moveaxis(np.moveaxis(x, dimension, 0)[:-1], 0, dimension)

    def inclusive() -> np.ndarray:
        return np.cumsum(x, axis=dimension, out=result)

    def exclusive() -> np.ndarray:
        np.cumsum(head, axis=dimension, out=rest)
        np.add(rest, np.expand_dims(init, dimension), out=rest)
        first[0] = init
        return result

    return inclusive if op.inclusive else exclusive


def torch_scan(op: Scan, values: Values) -> Call:
    """``torch.cumsum``; results in memory that stays."""
    import torch

    x, init = (torch.from_numpy(values[name]) for name in ("input", "accumulator_init"))
    dimension, result = op.dimension, torch.empty_like(torch.from_numpy(values["input"]))
    length = x.shape[dimension]
    first, rest = result.select(dimension, 0), result.narrow(dimension, 1, length - 1)
    head = x.narrow(dimension, 0, length - 1)

    def inclusive() -> Any:
        with torch.inference_mode():
            return torch.cumsum(x, dimension, out=result).numpy()

    def exclusive() -> Any:
        with torch.inference_mode():
            torch.add(torch.cumsum(head, dimension), init.unsqueeze(dimension), out=rest)
            first.copy_(init)
        return result.numpy()

    return inclusive if op.inclusive else exclusive
