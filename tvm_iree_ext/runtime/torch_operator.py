"""A kernel or a program's function as an operator of PyTorch's: in its graphs, exports, compilers.

It is defined with ``torch.library.Library`` and not with ``torch.library.custom_op``, whose layers
for autograd and aliases, of which there are none here, take each call some 7 us more.
"""

import functools
import keyword
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.signature import Operand, Signature, evaluate, shape_text
from tvm_iree_ext.runtime.torch_arrays import check_no_gradient

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")
_NUMBERS = {"b": "bool", "i": "SymInt", "u": "SymInt", "f": "float", "c": "complex"}

_lock = threading.Lock()
_defined: dict[
    str, tuple[Any, Any, Any]
] = {}  # name -> what it computes, the operator, its library


@dataclass(frozen=True)
class TorchOperator:
    """What an operator is made of.

    Args:
        op: the name of the kernel's op or of the function, as messages begin.
        signature: its operands.
        call: takes the arguments in order and by name.
        is_filling: whether ``call`` takes ``out=``, where results are in place of inputs; else it
            writes these anyhow.
        identity: equal for what computes the same.
        is_on_gpu: whether it takes tensors of a GPU, too.
        is_shaped_by_data: whether results may have extents that only a call tells.
        mutates: names of inputs in whose place results are written.
    """

    op: str
    signature: Signature
    call: Callable[..., Any]
    is_filling: bool
    identity: Any
    is_on_gpu: bool
    is_shaped_by_data: bool
    mutates: tuple[str, ...]

    def __post_init__(self) -> None:
        homes = {one.in_place_of for one in self.signature.results} - {""}
        for name in self.mutates:
            if name not in homes:
                listed = ", ".join(sorted(homes)) or "none"
                raise CallError(
                    f"{self.op}: mutates_args names {name!r}; inputs in whose place a result can"
                    f" be written: {listed}"
                )

    @property
    def returned(self) -> tuple[Operand, ...]:
        """The results that are new tensors."""
        return tuple(one for one in self.signature.results if one.in_place_of not in self._homes)

    @property
    def _homes(self) -> frozenset[str]:
        return frozenset(self.mutates)

    @property
    def _extents(self) -> tuple[str, ...]:
        """Extents of results that callers give."""
        return () if self.is_shaped_by_data else self.signature.result_symbols

    def schema(self) -> str:
        """Arguments and results in PyTorch's words."""
        taken = []
        for place, operand in enumerate(self.signature.arguments):
            if operand.role == "scalar":
                kind = _NUMBERS[operand.dtype[0]]
            else:
                kind = "Tensor" if operand.name not in self._homes else f"Tensor(a{place}!)"
            optional = "" if operand.default is None else "=None"
            taken.append(f"{kind}{'?' * bool(optional)} {_identifier(operand, place)}{optional}")
        if self._extents:
            taken += ["*", *(f"SymInt {name}" for name in self._extents)]
        results = ", ".join(["Tensor"] * len(self.returned))
        return f"({', '.join(taken)}) -> {results if len(self.returned) == 1 else f'({results})'}"

    def compute(self) -> Callable[..., Any]:
        """What an operator does with tensors that have elements."""
        results = self.signature.results
        places = {one.name: place for place, one in enumerate(self.signature.arguments)}
        homes = [places[one.in_place_of] if one not in self.returned else None for one in results]
        is_optional = any(one.default is not None for one in self.signature.arguments)
        if not (self.mutates or self._extents or is_optional):
            call = self.call
            return lambda *arguments: call(*arguments)

        def compute(*arguments: Any, **extents: int) -> Any:
            import torch

            given = {
                name: arguments[place]
                for name, place in places.items()
                if place < len(arguments) and arguments[place] is not None
            }
            out: Any = None
            if self.is_filling and (self.mutates or extents):
                new = iter(self._made(list(given.values()), self._bound(given) | extents))
                out = tuple(next(new) if home is None else arguments[home] for home in homes)
                out = out[0] if len(out) == 1 else out
            found = self.call(**given, out=out)
            for name in self.mutates:
                torch.autograd.graph.increment_version(given[name])
            found = found if isinstance(found, tuple) else (found,)
            kept = [one for one, home in zip(found, homes, strict=True) if home is None]
            return kept[0] if len(kept) == 1 else tuple(kept) or None

        return compute

    def without_gradient(self, found: Any) -> Callable[..., Any]:
        """What the operator ``found`` does where PyTorch may record gradients: refuse to."""
        import torch

        below = torch._C._AutoDispatchBelowAutograd

        def without_gradient(*arguments: Any, **extents: int) -> Any:
            if torch.is_grad_enabled():
                for value, operand in zip(arguments, self.signature.arguments, strict=False):
                    if isinstance(value, torch.Tensor) and value.requires_grad:
                        check_no_gradient(f"{self.op}: {operand.name}", value, torch)
            with below():
                return found(*arguments, **extents)

        return without_gradient

    def fake(self) -> Callable[..., Any]:
        """What an operator does with tensors of which only shape and type are known."""

        def fake(*arguments: Any, **extents: int) -> Any:
            operands = self.signature.arguments
            given = {
                operand.name: value
                for operand, value in zip(operands, arguments, strict=False)
                if value is not None
            }
            bound = self._bound(given)
            made = self._made(list(given.values()), bound | extents)
            return made[0] if len(made) == 1 else tuple(made) or None

        return fake

    def _bound(self, given: dict[str, Any]) -> dict[str, Any]:
        """The symbols' values, numbers or PyTorch's symbols, of tensors that fit.

        Raises:
            CallError: for a tensor of another rank, extent, type or device.
        """
        import torch

        bound: dict[str, Any] = {}
        computed = []
        for operand in self.signature.arguments:
            value = given.get(operand.name)
            if not isinstance(value, torch.Tensor) or operand.role in ("scalar", "unused"):
                continue
            name = f"{self.op}: {operand.name}"
            if value.dtype is not getattr(torch, operand.dtype, None):
                came = str(value.dtype).removeprefix("torch.")
                raise CallError(f"{name} is {came}; expected {operand.dtype}")
            if value.device.type not in ("cpu", "meta") and not self.is_on_gpu:
                raise CallError(f"{name} is on {value.device}; this kernel runs on the CPU")
            if value.dim() != len(operand.shape):
                raise CallError(
                    f"{name} has rank {value.dim()}; expected {len(operand.shape)}"
                    f" for {shape_text(operand.shape)}"
                )
            for axis, (came, want) in enumerate(zip(value.shape, operand.shape, strict=True)):
                if isinstance(want, str) and want.isidentifier() and want not in bound:
                    bound[want] = came
                else:
                    computed.append((f"{name} axis {axis}", came, want))
        for where, came, want in computed:
            expected = evaluate(want, bound, _calls())
            if isinstance(came, int) and isinstance(expected, int):
                if came != expected:
                    raise CallError(f"{where} has extent {came}; expected {expected}")
            else:  # a guard of the graph
                torch._check(came == expected, functools.partial(_differs, where, want))
        return bound

    def _made(self, given: Sequence[Any], bound: dict[str, Any]) -> list[Any]:
        """New tensors for the results, where the first tensor is."""
        import torch

        device = next((one.device for one in given if isinstance(one, torch.Tensor)), "cpu")
        if self.is_shaped_by_data:
            for name in self.signature.result_symbols:
                bound[name] = torch.library.get_ctx().new_dynamic_size()
        return [
            torch.empty(
                [evaluate(extent, bound, _calls()) for extent in one.shape],
                dtype=getattr(torch, one.dtype),
                device=device,
            )
            for one in self.returned
        ]


def defined(name: str, operator: TorchOperator) -> Any:
    """The operator ``torch.ops.<namespace>.<name>.default``, defined where it is not yet.

    Raises:
        CallError: for a name that is none or stands for something else, and where PyTorch is not
            installed.
    """
    try:
        import torch
    except ImportError as error:
        raise CallError(f"torch_op takes PyTorch: {error}; pip install torch") from None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise CallError(f"{operator.op}: torch_op takes a name as 'namespace::name'; {name!r} came")
    identity = operator.identity, operator.mutates
    namespace, _, short = name.partition("::")
    with _lock:
        if name in _defined:
            known, found, _ = _defined[name]
            if known != identity:
                raise CallError(
                    f"{operator.op}: the operator {name} is there and computes another kernel;"
                    " give this one another name"
                )
            return found
        if hasattr(getattr(torch.ops, namespace), short):
            raise CallError(f"{operator.op}: PyTorch has an operator {name}; give another name")
        library = torch.library.Library(namespace, "FRAGMENT")  # defined for as long as it is kept
        library.define(short + operator.schema(), tags=(torch.Tag.pt2_compliant_tag,))
        found = getattr(getattr(torch.ops, namespace), short).default
        library.impl(short, operator.compute(), "CompositeExplicitAutograd")
        library.impl(short, operator.without_gradient(found), "Autograd")
        torch.library.register_fake(name, operator.fake(), lib=library)
        _defined[name] = identity, found, library
        return found


def _differs(where: str, want: Any) -> str:
    return f"{where} has another extent than {want}"


def _identifier(operand: Operand, place: int) -> str:
    is_plain = operand.name.isidentifier() and not keyword.iskeyword(operand.name)
    return operand.name if is_plain else f"argument{place}"


def _calls() -> dict[str, Callable[[Any, Any], Any]]:
    """Functions in extents, of PyTorch's symbols too."""
    import torch

    return {"ceildiv": lambda a, b: -(-a // b), "max": torch.sym_max, "min": torch.sym_min}
