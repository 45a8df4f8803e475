"""Floats as their bit patterns: signs, absolute values and powers of 2, of numbers and vectors."""

import math
from collections.abc import Callable

import numpy as np
from tvm import DataType, tirx

from tvm_iree_ext.codegen.float_formats import FORMATS, format_of, integer_of, scalar_of
from tvm_iree_ext.codegen.math_calls import Rarely, Share
from tvm_iree_ext.codegen.polynomials import Expr, constant


def like(value: float, x: Expr) -> Expr:
    """A constant of another expression's type."""
    return constant(value, str(x.ty.dtype))


def words_of(x: Expr) -> Expr:
    """The bits of floats, as integers."""
    return tirx.reinterpret(integer_of(x), x)


def float_of(words: Expr) -> Expr:
    """The floats of bits."""
    return tirx.reinterpret(str(words.ty.dtype).replace("int", "float"), words)


def sign_of(x: Expr) -> Expr:
    """The sign's bit, of -0 and NaN too."""
    return words_of(x) & constant(-(1 << (_bits(x) - 1)), integer_of(x))


def size_of(x: Expr) -> Expr:
    """Absolute value, of -0 and NaN too."""
    return float_of(words_of(x) & constant((1 << (_bits(x) - 1)) - 1, integer_of(x)))


def turned(x: Expr, sign: Expr) -> Expr:
    """A number whose sign is changed where a sign's bit is set."""
    return float_of(tirx.bitwise_xor(words_of(x), sign))


def is_negative(x: Expr) -> Expr:
    """Whether the sign's bit is set, of -0 and NaN too."""
    return words_of(x) < constant(0, integer_of(x))


def clamped(x: Expr, most: float) -> Expr:
    """From ``-most`` to ``most``; NaN stays."""
    x = tirx.Select(x > like(most, x), like(most, x), x)
    return tirx.Select(x < like(-most, x), like(-most, x), x)


def rounding(x: Expr) -> Expr:
    """What rounds to an integer when it is added: that is in the lowest bits of the sum."""
    return like(1.5 * 2.0 ** format_of(x).mantissa, x)


def power_of_2(n: Expr) -> Expr:
    """``2^n`` of a whole number within the range of exponents."""
    form = format_of(n)
    total = n + like(1.5 * 2.0**form.mantissa + form.bias, n)
    return float_of(words_of(total) << constant(form.mantissa, integer_of(n)))


def mantissa_and_exponent(d: Expr, share: Share) -> tuple[Expr, Expr]:
    """``m`` from sqrt(1/2) to sqrt(2) and a whole ``n``, where a normal float64 is ``2^n m``."""
    mantissa, word = FORMATS["float64"].mantissa, integer_of(d)
    words = share(words_of(d))
    above = share(words - constant(_bits_of(math.sqrt(0.5)), word))
    m = share(float_of(words - (above & constant(-1 << mantissa, word))))
    # The exponent counted from 0, as the lowest bits of a float64.
    start = 2.0**mantissa
    biased = tirx.reinterpret("u" + word, above + constant(_bits_of(1.0), word))
    whole = tirx.reinterpret(word, biased >> constant(mantissa, "u" + word))
    lifted = float_of(whole | constant(_bits_of(start), word))
    return m, share(lifted - like(start + FORMATS["float64"].bias, d))


def rarely_beyond(x: Expr, most: float, usual: Expr, far: Callable[[Share], Expr]) -> Rarely:
    """The usual result, and another of the lanes whose arguments are large, infinite or NaN."""
    words, bits = words_of(size_of(x)), _bits(x)
    bound = int(np.array(most, scalar_of(x)).view(f"int{bits}"))
    largest = words
    if DataType(str(words.ty.dtype)).lanes > 1:
        largest = tirx.call_llvm_pure_intrin(f"int{bits}", "llvm.vector.reduce.smax", words)
    is_far = words > constant(bound, integer_of(x))
    return Rarely(
        usual,
        largest > tirx.const(bound, f"int{bits}"),
        lambda share: tirx.Select(is_far, far(share), usual),
    )


def _bits_of(value: float) -> int:
    return int(np.float64(value).view(np.int64))


def _bits(x: Expr) -> int:
    return DataType(str(x.ty.dtype)).bits
