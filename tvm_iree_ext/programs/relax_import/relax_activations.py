"""Activations of Relax by formulas that keep their digits, where TVM's overflow or cancel.

TVM has ``log(1 + e^x)`` for softplus, which is infinite where a power is, and ``1 + erf(x)`` in
gelu, of which nothing is left for what is below -5.
"""

import math
from collections.abc import Callable, Mapping

from tvm import ir, relax, te, tirx

from tvm_iree_ext.programs.relax_import.relax_ops import Lower
from tvm_iree_ext.tir.tir_expressions import Expr, library_function, number

_erfc, _expm1 = library_function("erfc"), library_function("expm1")
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848, 1.0507009873554804935
"""Klambauer et al., "Self-Normalizing Neural Networks", 2017."""


def _sigmoid(x: Expr) -> Expr:
    """By a power that is never above 1."""
    one = number(1.0, x)
    power = tirx.exp(-tirx.abs(x))
    return tirx.Select(x < number(0.0, x), power, one) / (one + power)


def _silu(x: Expr) -> Expr:
    return x * _sigmoid(x)


def _gelu(x: Expr) -> Expr:
    return x * (number(0.5, x) * _erfc(x * number(-math.sqrt(0.5), x)))


def _gelu_tanh(x: Expr) -> Expr:
    """``(1 + tanh(u)) / 2`` is the sigmoid of ``2 u``."""
    bent = x + number(0.044715, x) * x * x * x
    return x * _sigmoid(number(math.sqrt(8 / math.pi), x) * bent)


def _selu(x: Expr) -> Expr:
    below = number(_SELU_SCALE * _SELU_ALPHA, x) * _expm1(x)
    return tirx.Select(x > number(0.0, x), number(_SELU_SCALE, x) * x, below)


def _softplus(x: Expr, beta: float, threshold: float) -> Expr:
    zero, scaled = number(0.0, x), number(beta, x) * x
    above = tirx.Select(scaled > zero, scaled, zero)
    value = (above + tirx.log1p(tirx.exp(-tirx.abs(scaled)))) / number(beta, x)
    return tirx.Select(scaled > number(threshold, x), x, value)


def _elementwise(name: str, of: Callable[..., Expr], *attributes: str) -> Lower:
    """How an operator is lowered to a function of each element and of the call's attributes."""

    def lower(builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
        numbers = [float(getattr(call.attrs, one)) for one in attributes]

        def computed(x: te.Tensor) -> te.Tensor:
            return te.compute(x.shape, lambda *i: of(x(*i), *numbers), name=name)

        return builder.call_te(computed, call.args[0], primfunc_name_hint=name)

    return lower


ACTIVATIONS: Mapping[str, Lower] = {
    "relax.sigmoid": _elementwise("sigmoid", _sigmoid),
    "relax.nn.silu": _elementwise("silu", _silu),
    "relax.nn.gelu": _elementwise("gelu", _gelu),
    "relax.nn.gelu_tanh": _elementwise("gelu_tanh", _gelu_tanh),
    "relax.nn.selu": _elementwise("selu", _selu),
    "relax.nn.softplus": _elementwise("softplus", _softplus, "beta", "threshold"),
}
"""How each activation is lowered, of float32 and float64, by its operator's name."""
