"""What PyTorch calls for the same work: cuBLAS, cuDNN, FlashAttention, cuFFT, CUB.

A peer takes tensors in the order of the op's operands, and gives its leading results.  With
tensors of float64 it gives what both are compared with.
"""

from collections.abc import Callable, Mapping
from typing import Any

Peer = Callable[..., Any]


def torch_peers(torch: Any, what: str, settings: Mapping[str, Any], dtype: str) -> dict[str, Peer]:
    """The peers of a kind of work, by their names; ``dtype`` is that of the first operand."""
    functions: dict[str, Callable[..., dict[str, Peer]]] = {
        "matmul": _matmul,
        "attention": _attention,
        "conv_2d": _conv_2d,
        "fft": _fft,
    }
    if what in functions:
        return functions[what](torch, dtype, **settings)
    return {"PyTorch": _simple(torch, what, **settings)}


def exact(torch: Any, what: str, settings: Mapping[str, Any]) -> Peer:
    """The function that is right, for tensors of float64 or integers."""
    if what == "matmul":
        return lambda a, b: a @ (b.T if settings["transposed"] else b)
    if what == "attention":
        return lambda q, k, v: _plain_attention(torch, q, k, v, **settings)
    if what in ("conv_2d", "fft"):
        function = _conv_2d if what == "conv_2d" else _fft
        return next(iter(function(torch, "float64", **settings).values()))
    return _simple(torch, what, **settings)


def _matmul(torch: Any, dtype: str, *, transposed: bool) -> dict[str, Peer]:
    def order(b: Any) -> Any:
        return b.T if transposed else b

    if dtype == "int8":
        return {"cuBLASLt": lambda a, b: torch._int_mm(a, order(b))}
    if dtype.startswith("float8"):
        one = torch.ones((), device="cuda")

        def scaled(fast: bool) -> Peer:
            kind = torch.bfloat16
            return lambda a, b: torch._scaled_mm(
                a, order(b), one, one, out_dtype=kind, use_fast_accum=fast
            )

        return {"cuBLASLt": scaled(False), "cuBLASLt, fast sums": scaled(True)}
    if dtype == "float32":

        def with_tf32(allowed: bool) -> Peer:
            def run(a: Any, b: Any) -> Any:
                torch.backends.cuda.matmul.allow_tf32 = allowed
                return a @ order(b)

            return run

        return {"cuBLAS": with_tf32(False), "cuBLAS, TF32": with_tf32(True)}
    return {"cuBLAS": lambda a, b: a @ order(b)}


def _attention(torch: Any, dtype: str, *, causal: bool) -> dict[str, Peer]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def by(backend: Any) -> Peer:
        def run(query: Any, key: Any, value: Any) -> Any:
            with sdpa_kernel([backend]):
                return torch.nn.functional.scaled_dot_product_attention(
                    query, key, value, is_causal=causal, enable_gqa=key.shape[1] != query.shape[1]
                )

        return run

    names = {
        "FlashAttention 2": SDPBackend.FLASH_ATTENTION,
        "cuDNN": SDPBackend.CUDNN_ATTENTION,
        "PyTorch efficient": SDPBackend.EFFICIENT_ATTENTION,
    }
    return {name: by(backend) for name, backend in names.items()}


def _plain_attention(torch: Any, query: Any, key: Any, value: Any, *, causal: bool) -> Any:
    """Head by head, since the scores of all take too much memory."""
    groups = query.shape[1] // key.shape[1]
    result = torch.empty((*query.shape[:3], value.shape[-1]), dtype=query.dtype, device="cuda")
    for batch in range(query.shape[0]):
        for head in range(query.shape[1]):
            k, v = key[batch, head // groups], value[batch, head // groups]
            scores = query[batch, head] @ k.T / query.shape[-1] ** 0.5
            if causal:
                scores += torch.full_like(scores, float("-inf")).triu(1)
            result[batch, head] = scores.softmax(-1) @ v
    return result


def _conv_2d(torch: Any, dtype: str, *, padding: int, stride: int = 1) -> dict[str, Peer]:
    channels_last = torch.channels_last
    packed: dict[int, Any] = {}

    def run(image: Any, taps: Any) -> Any:
        torch.backends.cudnn.allow_tf32 = False  # float32 is float32
        if not packed:  # at the first call, which is not timed
            packed[0] = taps.permute(3, 2, 0, 1).contiguous(memory_format=channels_last)
        images = image.permute(0, 3, 1, 2)
        result = torch.nn.functional.conv2d(images, packed[0], padding=padding, stride=stride)
        return result.permute(0, 2, 3, 1)

    return {"cuDNN": run}


def _fft(torch: Any, dtype: str, axis: int = -1) -> dict[str, Peer]:
    numbers: dict[int, Any] = {}

    def run(real: Any, imaginary: Any) -> Any:
        if not numbers:  # cuFFT takes complex numbers
            numbers[0] = torch.complex(real, imaginary)
        return torch.view_as_real(torch.fft.fft(numbers[0], dim=axis))

    return {"cuFFT": run}


def _sorted_with(torch: Any, axis: int) -> Peer:
    def run(keys: Any, payload: Any) -> Any:
        values, places = torch.sort(keys, dim=axis, stable=True)
        payload.gather(axis, places)  # takes its time; the first result is compared
        return values

    return run


def _simple(torch: Any, what: str, axis: int = 0, k: int = 1) -> Peer:
    functions: dict[str, Peer] = {
        "cumsum": lambda x, _init: torch.cumsum(x, axis),
        "sort": lambda x: torch.sort(x, axis).values,
        "sort with payload": _sorted_with(torch, axis),
        "topk": lambda x, *_: torch.topk(x, k, axis).values,
        "argmax": lambda x, *_: torch.max(x, axis).values,
        "exp_sums": lambda x, *_: _exp_sums(torch, x, axis),
        "pack": lambda x: x.unflatten(1, (-1, 16)).unflatten(0, (-1, 16)).transpose(1, 2)
        .contiguous(),
        "gather": lambda source, at: source[at[:, 0]],
    }  # fmt: skip
    return functions[what]


def _exp_sums(torch: Any, x: Any, axis: int) -> Any:
    """Maxima, which are compared, and sums of powers below them, which take the time."""
    largest = x.amax(axis, keepdim=True)
    torch.exp2(x - largest).sum(axis)
    return largest.squeeze(axis)
