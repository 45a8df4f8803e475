"""The cases of im2col: ``im2col_2x34x34x640_k3`` is NHWC with a 3x3 kernel; ``_nchw`` says so."""

from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Peer, Values
from tvm_iree_ext.bench.base.checks import exactly, normal_operands
from tvm_iree_ext.bench.peers.jax_peer import jax_peer
from tvm_iree_ext.bench.peers.torch_compile import compiled_peer


def im2col_cases() -> tuple[Case, ...]:
    """All of them."""
    return (
        im2col_case((2, 34, 34, 640), 3),
        im2col_case((2, 35, 33, 67), 3),
        im2col_case((2, 64, 58, 58), 3, nchw=True),
    )


def im2col_case(shape: tuple[int, ...], kernel: int, *, nchw: bool = False) -> Case:
    """All windows of a float32 image, with stride 1."""
    rows, columns = (2, 3) if nchw else (1, 2)
    op = ops.im2col(
        shape,
        kernel_size=(kernel, kernel),
        batch_pos=(0,),
        m_pos=(rows, columns),
        k_pos=(1,) if nchw else (3,),
    )
    order = (0, 2, 3, 1, 4, 5) if nchw else (0, 1, 2, 4, 5, 3)
    result = tuple(map(int, op.output.shape))

    def windows(image: np.ndarray) -> np.ndarray:
        """A view: batch, rows and columns of windows, then K."""
        # NumPy 2.2, the newest for Python 3.10, has types for one axis only.
        slide: Any = np.lib.stride_tricks.sliding_window_view
        return slide(image, (kernel, kernel), (rows, columns)).transpose(order)

    def numpy_call(values: Values) -> Call:
        out = np.empty(result, np.float32)
        view = windows(values["input"])

        def call() -> np.ndarray:
            np.copyto(out.reshape(view.shape), view)
            return out

        return call

    def torch_windows(image: Any) -> Any:
        return image.unfold(rows, kernel, 1).unfold(columns, kernel, 1).permute(order)

    def jax_windows(image: Any) -> Any:
        return _jax_windows(image, kernel, (rows, columns)).transpose(order).reshape(result)

    def torch_call(values: Values) -> Call:
        import torch

        view = torch_windows(torch.from_numpy(values["input"]))
        out = torch.empty(view.shape)
        return lambda: out.copy_(view).reshape(result)

    name = f"im2col_{'x'.join(map(str, shape))}_k{kernel}"
    return Case(
        name=f"{name}_nchw" if nchw else name,
        op=op,
        operands=normal_operands({"input": shape}),
        check=lambda values: exactly(np.reshape(windows(values["input"]), result)),
        peers=(
            Peer(NUMPY, numpy_call),
            Peer(TORCH, torch_call),
            compiled_peer(lambda image: torch_windows(image).reshape(result)),
            jax_peer(
                lambda image: (
                    _jax_windows(image, kernel, (rows, columns)).transpose(order).reshape(result)
                )
            ),
        ),
    )


def _jax_windows(image: Any, kernel: int, axes: tuple[int, int]) -> Any:
    import jax.numpy as jnp
    from jax.lax import slice_in_dim

    def moved(along: int, array: Any, axis: int) -> Any:
        return slice_in_dim(array, along, along + array.shape[axis] - kernel + 1, axis=axis)

    rows, columns = axes
    parts = [
        jnp.stack([moved(x, moved(y, image, rows), columns) for x in range(kernel)], -1)
        for y in range(kernel)
    ]
    return jnp.stack(parts, -2)
