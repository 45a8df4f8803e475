"""The functions whose accuracy is measured, and the error that each is promised to stay within.

What a function means is said twice: in float64 by the C library through NumPy, which is exact
enough for narrower types and says what special values are, and by mpmath, for float64 itself.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import AccuracyError
from tvm_iree_ext.base.suggestions import did_you_mean

TYPES = ("float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True)
class PeerCall:
    """A function of another library: ``module.name``, and options that it is called with."""

    path: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MathFunction:
    """A function of each element.

    Attributes:
        name: what the command calls it.
        source: the operation that ours is built from: ``math.`` of MLIR, or ``relax.``.
        wide: of float64 arrays, by the C library.
        exact: of mpmath, and its numbers.
        bounds: by type, the most units in the last place that a result is off by; empty where no
            bound holds, since the formula loses digits where it subtracts.
        peers: by library, its function.
        operands: how many numbers it takes.
    """

    name: str
    source: str
    wide: Callable[..., np.ndarray]
    exact: Callable[..., Any]
    bounds: Mapping[str, float]
    peers: Mapping[str, PeerCall]
    operands: int = 1


def _math(
    name: str,
    bounds: Mapping[str, float],
    *,
    source: str | None = None,
    numpy: str | None = None,
    wide: Callable[..., np.ndarray] | None = None,
    exact: Callable[..., Any] | None = None,
    torch: str | None = "torch.{}",
    jax: str = "jax.numpy.{}",
    operands: int = 1,
) -> MathFunction:
    """A function of MLIR's math dialect; ``{}`` of a peer's path is NumPy's name."""
    numpy_name = numpy or name
    peers = {"JAX": PeerCall(jax.format(numpy_name))}
    if torch is not None:
        peers["PyTorch"] = PeerCall(torch.format(numpy_name))
    if wide is None:
        wide = getattr(np, numpy_name)
        peers["NumPy"] = PeerCall(f"numpy.{numpy_name}")

    def by_name(mp: Any, *numbers: Any) -> Any:
        return getattr(mp, name)(*numbers)

    return MathFunction(
        name, source or f"math.{name}", wide, exact or by_name, bounds, peers, operands
    )


def _neural(
    name: str,
    source: str,
    bounds: Mapping[str, float],
    wide: Callable[..., np.ndarray],
    exact: Callable[..., Any],
    torch: PeerCall,
    jax: PeerCall,
) -> MathFunction:
    """A function of neural networks, which NumPy has not."""
    peers = {"JAX": jax, "PyTorch": torch}
    return MathFunction(name, source, wide, exact, bounds, peers)


def _bounds(f32: float, f64: float, f16: float = 0.501, bf16: float = 0.501) -> dict[str, float]:
    return dict(zip(TYPES, (f32, f64, f16, bf16), strict=True))


_EXACT = dict.fromkeys(TYPES, 0.0)

_NARROW_BOUNDS = {"float16": 0.501, "bfloat16": 0.501}
"""Of functions that lose digits in float32 and float64, by far arguments or a threshold."""

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_TANH_SCALE = math.sqrt(8 / math.pi)
"""Of gelu by tanh: 2 sqrt(2 / pi), as x sigmoid(2 u) is x (1 + tanh(u)) / 2."""


def _wide_sigmoid(x: np.ndarray) -> np.ndarray:
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1) / (1 + power)


def _wide_gelu_tanh(x: np.ndarray) -> np.ndarray:
    return x * _wide_sigmoid(_TANH_SCALE * (x + 0.044715 * x**3))


def _exact_erfc(mp: Any, x: Any) -> Any:
    """Below -10 it is 2 but for 2e-45, which takes mpmath long."""
    return mp.erfc(max(x, -10))


def _exact_gelu_tanh(mp: Any, x: Any) -> Any:
    scale = mp.sqrt(8 / mp.pi)
    return x / (1 + mp.exp(-scale * (x + mp.mpf("0.044715") * x**3)))


def _exact_pow(mp: Any, x: Any, y: Any) -> Any:
    """A negative base has whole exponents here."""
    value = mp.power(abs(x), y)
    return -value if x < 0 and int(y) % 2 else value


def _exact_cbrt(mp: Any, x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


FUNCTIONS: tuple[MathFunction, ...] = (
    _math("exp", _bounds(1.0, 1.0)),
    _math("exp2", _bounds(1.0, 1.0), exact=lambda mp, x: mp.power(2, x)),
    _math("expm1", _bounds(0.501, 0.75)),
    _math("log", _bounds(1.0, 0.75)),
    _math("log2", _bounds(0.501, 0.75), exact=lambda mp, x: mp.log(x) / mp.log(2)),
    _math("log10", _bounds(0.501, 0.75)),
    _math("log1p", _bounds(1.0, 0.75)),
    _math("sin", _bounds(0.501, 1.0)),
    _math("cos", _bounds(0.501, 1.0)),
    _math("tan", _bounds(0.501, 1.0)),
    _math("asin", _bounds(0.501, 1.0), numpy="arcsin", torch="torch.asin"),
    _math("acos", _bounds(0.501, 1.0), numpy="arccos", torch="torch.acos"),
    _math("atan", _bounds(0.501, 0.75), numpy="arctan", torch="torch.atan"),
    _math("sinh", _bounds(0.501, 1.0)),
    _math("cosh", _bounds(0.501, 0.75)),
    _math("tanh", _bounds(1.0, 1.0)),
    _math("asinh", _bounds(0.501, 0.75), numpy="arcsinh", torch="torch.asinh"),
    _math("acosh", _bounds(0.501, 0.75), numpy="arccosh", torch="torch.acosh"),
    _math("atanh", _bounds(0.501, 0.75), numpy="arctanh", torch="torch.atanh"),
    _math("erf", _bounds(1.5, 1.0), wide=_erf, jax="jax.scipy.special.erf"),
    _math("erfc", _bounds(0.501, 1.0), wide=_erfc, exact=_exact_erfc, jax="jax.scipy.special.erfc"),
    _math("sqrt", _bounds(0.5, 0.5)),
    _math(
        "rsqrt",
        _bounds(1.5, 1.5),
        wide=lambda x: 1 / np.sqrt(x),
        exact=lambda mp, x: 1 / mp.sqrt(x),
        jax="jax.lax.rsqrt",
    ),
    _math("cbrt", _bounds(0.501, 0.75), exact=_exact_cbrt, torch=None),
    _math(
        "pow",
        _bounds(0.501, 0.75),
        source="math.powf",
        numpy="power",
        torch="torch.pow",
        exact=_exact_pow,
        operands=2,
    ),
    _math("atan2", _bounds(0.501, 0.75), numpy="arctan2", torch="torch.atan2", operands=2),
    _math("abs", _EXACT, source="math.absf", exact=lambda mp, x: abs(x)),
    _math("ceil", _EXACT),
    _math("floor", _EXACT),
    _math("trunc", _EXACT, exact=lambda mp, x: mp.sign(x) * mp.floor(abs(x))),
    _math("roundeven", _EXACT, numpy="rint", torch="torch.round", exact=lambda mp, x: mp.nint(x)),
    _math(
        "copysign",
        _EXACT,
        exact=lambda mp, x, y: abs(x) if y > 0 else -abs(x),
        operands=2,
    ),
    _neural(
        "sigmoid",
        "relax.sigmoid",
        _bounds(2.25, 2.25),
        _wide_sigmoid,
        lambda mp, x: 1 / (1 + mp.exp(-x)),
        PeerCall("torch.sigmoid"),
        PeerCall("jax.nn.sigmoid"),
    ),
    _neural(
        "silu",
        "relax.nn.silu",
        _NARROW_BOUNDS,
        lambda x: x * _wide_sigmoid(x),
        lambda mp, x: x / (1 + mp.exp(-x)),
        PeerCall("torch.nn.functional.silu"),
        PeerCall("jax.nn.silu"),
    ),
    _neural(
        "gelu",
        "relax.nn.gelu",
        _NARROW_BOUNDS,
        lambda x: x * (0.5 * _erfc(-x / math.sqrt(2))),
        lambda mp, x: x * _exact_erfc(mp, -x / mp.sqrt(2)) / 2,
        PeerCall("torch.nn.functional.gelu"),
        PeerCall("jax.nn.gelu", {"approximate": False}),
    ),
    _neural(
        "gelu_tanh",
        "relax.nn.gelu_tanh",
        _NARROW_BOUNDS,
        _wide_gelu_tanh,
        _exact_gelu_tanh,
        PeerCall("torch.nn.functional.gelu", {"approximate": "tanh"}),
        PeerCall("jax.nn.gelu", {"approximate": True}),
    ),
    _neural(
        "softplus",
        "relax.nn.softplus",
        {**_NARROW_BOUNDS, "float32": 1.75},
        lambda x: np.logaddexp(0, x),
        lambda mp, x: mp.log1p(mp.exp(x)),
        PeerCall("torch.nn.functional.softplus"),
        PeerCall("jax.nn.softplus"),
    ),
)


def named(names: Sequence[str]) -> tuple[MathFunction, ...]:
    """The functions of these names; all of them where none is named.

    Raises:
        AccuracyError: for a name that no function has.
    """
    by_name = {function.name: function for function in FUNCTIONS}
    for name in names:
        if name not in by_name:
            hint = did_you_mean(name, by_name)
            raise AccuracyError(
                f"accuracy: function {name!r} is none of {', '.join(by_name)}{hint}"
            )
    return tuple(by_name[name] for name in names) if names else FUNCTIONS
