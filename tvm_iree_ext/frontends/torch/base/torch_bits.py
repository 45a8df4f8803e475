"""PyTorch's operators on the bits of integers, with numbers, by the ones of tensors alone."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_loops import repeated_while

aten = torch.ops.aten


def of_one_shape(*tensors: Any) -> Sequence[Any]:
    """Tensors of their common shape: IREE's front end has no operator for several at once."""
    if all(one.shape == tensors[0].shape for one in tensors):
        return tensors
    shape = torch.broadcast_shapes(*(one.shape for one in tensors))
    return [one if one.shape == shape else one.expand(shape) for one in tensors]


def of_tensors(operator: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator whose operands become tensors of their common type, of one shape."""

    def applied(a: Any, b: Any) -> Any:
        kind = torch.result_type(a, b)
        tensors = [
            one.to(kind) if isinstance(one, torch.Tensor) else torch.full((), one, dtype=kind)
            for one in (a, b)
        ]
        return operator(*of_one_shape(*tensors))

    return applied


both, either, one_of = map(of_tensors, (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor))


@of_tensors
def gcd(a: Any, b: Any) -> Any:
    """Euclid's, until no element has a rest."""

    def has_rest(a: Any, b: Any) -> Any:
        return (b != 0).any()

    def step(a: Any, b: Any) -> Any:
        divisor = torch.where(b == 0, torch.ones_like(b), b)
        return torch.where(b == 0, a, b), torch.where(b == 0, b, torch.fmod(a, divisor))

    return repeated_while(has_rest, step, (a.abs(), b.abs()))[0]


@of_tensors
def lcm(a: Any, b: Any) -> Any:
    """The product by what both divide by; 0 where either is."""
    common = gcd(a, b)
    divisor = torch.where(common == 0, torch.ones((), dtype=a.dtype), common)
    return (torch.div(a, divisor, rounding_mode="trunc") * b).abs()


@of_tensors
def whole_power(a: Any, b: Any) -> Any:
    """By squares, as long as an exponent has bits; of exponents below 0 that of 1 and -1 alone."""

    def has_bits(found: Any, a: Any, b: Any) -> Any:
        return (b > 0).any()

    def step(found: Any, a: Any, b: Any) -> Any:
        is_odd = torch.remainder(b, 2) == 1
        half = torch.div(b, 2, rounding_mode="trunc")
        return torch.where(is_odd, found * a, found), a * a, half

    one, zero = torch.ones_like(a), torch.zeros_like(a)
    state = one, a, torch.where(b > 0, b, zero)
    found = repeated_while(has_bits, step, state)[0]
    below = torch.where(a == -1, 1 - 2 * torch.remainder(b, 2), torch.where(a == 1, one, zero))
    return torch.where(b < 0, below, found)


def known_power(x: Any, exponent: int) -> Any:
    """Of whole numbers by an exponent of the program, 0 or more: by squares."""
    found = torch.ones_like(x)
    while exponent:
        found = found * x if exponent & 1 else found
        exponent >>= 1
        x = x * x if exponent else x
    return found


def power(a: Any, b: Any) -> Any:
    """Of whole numbers; all others as PyTorch has it."""
    kind = torch.result_type(a, b)
    if kind.is_floating_point or kind.is_complex:
        return torch.pow(a, b)
    return whole_power(a, b)


BITS: dict[Any, Callable[..., Any]] = {
    aten.__and__.Scalar: both,
    aten.__and__.Tensor: both,
    aten.__or__.Scalar: either,
    aten.__or__.Tensor: either,
    aten.__xor__.Scalar: one_of,
    aten.__xor__.Tensor: one_of,
    aten.bitwise_and.Scalar: both,
    aten.bitwise_and.Scalar_Tensor: both,
    aten.bitwise_or.Scalar: either,
    aten.bitwise_or.Scalar_Tensor: either,
    aten.bitwise_xor.Scalar: one_of,
    aten.bitwise_xor.Scalar_Tensor: one_of,
    aten.pow.Tensor_Tensor: power,
    aten.pow.Scalar: power,
    aten.gcd.default: gcd,
    aten.lcm.default: lcm,
}
