"""Elements in blocks with a scale each: the formats of OCP MX 1.0, and NVFP4, by their bits.

    number[block, i] = scale[block] * element[block, i]

MX has blocks of 32 and scales of E8M0, which are powers of two; NVFP4 has blocks of 16, scales of
E4M3, and beside them one float32 for all of a tensor.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tvm_iree_ext.base.errors import OpError


@dataclass(frozen=True)
class ElementFormat:
    """Bits of the exponent and of the mantissa, and the bias (OCP MX 1.0, tables 2 to 5)."""

    exponent: int
    mantissa: int
    bias: int


ELEMENTS = {
    "float8_e5m2": ElementFormat(5, 2, 15),
    "float8_e4m3fn": ElementFormat(4, 3, 7),
    "float6_e3m2fn": ElementFormat(3, 2, 3),
    "float6_e2m3fn": ElementFormat(2, 3, 1),
    "float4_e2m1fn": ElementFormat(2, 1, 1),
}
EXPONENTS = "float8_e8m0fnu"

FORMATS = {
    "mxfp8_e5m2": ("float8_e5m2", EXPONENTS, 32),
    "mxfp8_e4m3": ("float8_e4m3fn", EXPONENTS, 32),
    "mxfp6_e3m2": ("float6_e3m2fn", EXPONENTS, 32),
    "mxfp6_e2m3": ("float6_e2m3fn", EXPONENTS, 32),
    "mxfp4": ("float4_e2m1fn", EXPONENTS, 32),
    "nvfp4": ("float4_e2m1fn", "float8_e4m3fn", 16),
}
"""Of each format the types of elements and of scales, and the elements of a block."""


def decoded(array: np.ndarray) -> np.ndarray:
    """The numbers of elements, or of scales, in float64; of other types as they are."""
    name = str(array.dtype)
    if name not in (*ELEMENTS, EXPONENTS):
        return array.astype(np.float64)
    words = np.ascontiguousarray(array).view(np.uint8).astype(np.int64).reshape(array.shape)
    if name == EXPONENTS:
        return np.where(words == 255, np.nan, np.ldexp(1.0, words - 127))
    form = ELEMENTS[name]
    mantissa = words & (1 << form.mantissa) - 1
    exponent = words >> form.mantissa & (1 << form.exponent) - 1
    sign = np.where(words >> form.mantissa + form.exponent & 1, -1.0, 1.0)
    fraction = mantissa / (1 << form.mantissa)
    normal = np.ldexp(1.0 + fraction, exponent - form.bias)
    number = np.where(exponent == 0, np.ldexp(fraction, 1 - form.bias), normal)
    if name == "float8_e5m2":  # has infinities and NaN, as IEEE has them
        number = np.where(exponent == 31, np.where(mantissa == 0, np.inf, np.nan), number)
    if name == "float8_e4m3fn":  # has NaN, the largest pattern
        number = np.where((exponent == 15) & (mantissa == 7), np.nan, number)
    return np.asarray(sign * number)


def encoded(numbers: np.ndarray, element: str) -> np.ndarray:
    """The nearest elements, ties to even; what is larger than the largest becomes that.

    NaN becomes NaN, and 0 where the type has none.
    """
    form = ELEMENTS[element]
    every = decoded(
        np.arange(1 << form.exponent + form.mantissa, dtype=np.uint8).view(_kind(element))
    )
    finite = every[np.isfinite(every)]
    size = np.minimum(np.abs(np.nan_to_num(numbers.astype(np.float64))), finite[-1])
    _, exponents = np.frexp(size)  # size is below 2**exponents
    quantum = np.ldexp(1.0, np.maximum(exponents - 1, 1 - form.bias) - form.mantissa)
    rounded = np.minimum(np.rint(size / quantum) * quantum, finite[-1])
    words = np.searchsorted(finite, rounded).astype(np.uint8)
    words |= np.signbit(numbers).astype(np.uint8) << form.exponent + form.mantissa
    nan = np.flatnonzero(np.isnan(every))
    words[np.isnan(numbers)] = nan[-1] if nan.size else 0
    return np.asarray(words.view(_kind(element)))


def quantized(numbers: np.ndarray, form: str) -> tuple[np.ndarray, np.ndarray, np.float32]:
    """Blocks along the last axis: elements ``[..., blocks, block]``, their scales, and NVFP4's
    float32 of all of them, which is 1 for the others.

    An MX scale is the largest power of two up to the block's largest number, over the largest in
    the element type (OCP MX 1.0, 6.3); of NVFP4 it has that number be the type's largest one.
    A block with NaN or an infinity has NaN for its scale.

    Raises:
        OpError: for a format that is not known, and a last axis that is not whole blocks.
    """
    if form not in FORMATS:
        raise OpError(f"block_scaled: format is {form!r}; expected one of {', '.join(FORMATS)}")
    element, scale, block = FORMATS[form]
    if numbers.ndim == 0 or numbers.shape[-1] % block:
        raise OpError(
            f"block_scaled: the last axis of {list(numbers.shape)} is no multiple of {block}, the"
            f" block of {form}"
        )
    blocks = numbers.astype(np.float64).reshape(*numbers.shape[:-1], -1, block)
    largest = np.max(np.abs(blocks), axis=-1)
    is_number = np.isfinite(largest)
    largest = np.where(is_number, largest, 0.0)
    tensor = np.float32(1.0)
    if scale == EXPONENTS:
        scales = _exponents(largest, element)
        scales.view(np.uint8)[~is_number] = 255
    else:
        tensor = np.float32(np.max(largest, initial=0.0) / (_largest(element) * _largest(scale)))
        tensor = tensor if tensor > 0 else np.float32(1.0)
        ideal = largest / (_largest(element) * np.float64(tensor))
        scales = encoded(np.where(is_number, ideal, np.nan), scale)
    whole = decoded(scales) * np.float64(tensor)
    with np.errstate(invalid="ignore", divide="ignore"):
        elements = encoded(np.nan_to_num(blocks / whole[..., None], posinf=0, neginf=0), element)
    return elements, scales, tensor


def dequantized(elements: np.ndarray, scales: np.ndarray, tensor: float = 1.0) -> np.ndarray:
    """The numbers of ``elements[..., blocks, block]`` in float64, ``[..., blocks * block]``."""
    numbers = decoded(elements) * decoded(scales)[..., None] * np.float64(tensor)
    return numbers.reshape(*elements.shape[:-2], -1)


def _exponents(largest: np.ndarray, element: str) -> np.ndarray:
    """Scales of E8M0 for blocks with these largest numbers; of a block of zeros the least."""
    of_type = int(np.floor(np.log2(_largest(element))))
    _, exponents = np.frexp(largest)
    shared = np.where(largest > 0, exponents - 1 - of_type, -127)
    return (np.clip(shared, -127, 127) + 127).astype(np.uint8).view(_kind(EXPONENTS))


def _largest(element: str) -> float:
    """The largest number of a type."""
    count = 1 << ELEMENTS[element].exponent + ELEMENTS[element].mantissa
    every = decoded(np.arange(count, dtype=np.uint8).view(_kind(element)))
    return float(every[np.isfinite(every)][-1])


def _kind(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name))
