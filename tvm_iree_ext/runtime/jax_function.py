"""A kernel as a function of JAX's, which is part of what ``jax.jit`` compiles.

JAX calls the kernel's own function in the library, by ``jax-tvm-ffi``: no Python runs then.  All
that a call is checked for is known when JAX traces it.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import tvm_ffi

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.runtime.calls import Caller, ordered

_ABSENT = "jax-tvm-ffi is not installed: {}; pip install 'tvm-iree-ext[jax]'"

_lock = threading.Lock()
_registered: dict[str, Any] = {}  # name -> the library's function, which JAX does not keep


def jax_function(caller: Caller, function: Any, identity: str) -> Callable[..., Any]:
    """The function of JAX arrays that a kernel for the CPU computes.

    Args:
        caller: checks the arrays of a call.
        function: of the library, which takes all operands in order.
        identity: names the library's function in this process.

    Raises:
        CallError: where JAX or ``jax-tvm-ffi`` is not installed.
    """
    try:
        import jax
        import jax_tvm_ffi
    except ImportError as error:
        raise CallError(f"{caller.op}: {_ABSENT.format(error)}") from None
    with _lock:
        if identity not in _registered:
            taken = _registered[identity] = _reordered(caller, function)
            jax_tvm_ffi.register_ffi_target(identity, taken, _spec(caller), platform="cpu")

    def compute(*arguments: Any, **named: Any) -> Any:
        arguments, named = caller.completed(arguments, named, None)
        arguments = ordered(caller.op, caller.arguments, arguments, named)
        numbers: dict[str, Any] = {}
        inputs: list[Any] = []
        shapes: list[Any] = []
        for value, port in zip(arguments, caller.ports, strict=True):
            if port.is_scalar:
                if isinstance(value, jax.core.Tracer):
                    raise CallError(
                        f"{port.name} is traced by JAX; expected a number that is known then:"
                        " an argument of static_argnums"
                    )
                numbers[port.operand] = port.numpy.type(port.number(value))
                shapes.append(None)
                continue
            array = jax.numpy.asarray(value)
            if array.dtype != port.numpy:
                raise CallError(f"{port.name} is {array.dtype}; expected {port.dtype}")
            inputs.append(array)
            shapes.append(array.shape)
        results, copies = caller.plan(shapes, None)
        if copies is not None:
            given = [inputs[_place(caller, argument)] for _, argument in sorted(copies)]
            return given[0] if len(given) == 1 else tuple(given)
        kinds = tuple(
            (tuple(shape), port.numpy)
            for shape, port in zip(results, caller.result_ports, strict=True)
        )
        # Numbers by their text as well: 0.0 is equal to -0.0.
        call = _call(identity, caller.op, kinds, tuple(numbers.items()), repr(numbers))
        found = call(*inputs)
        return found[0] if len(found) == 1 else tuple(found)

    compute.__name__ = compute.__qualname__ = caller.op
    compute.__doc__ = f"Compute {caller.op} of JAX arrays, scalars known when it is traced."
    return compute


@functools.lru_cache(maxsize=256)
def _call(
    name: str,
    op: str,
    results: tuple[tuple[Any, Any], ...],
    numbers: tuple[tuple[str, Any], ...],
    _: str,
) -> Any:
    """What calls the library for arrays that were checked, compiled by JAX; without a derivative.

    ``results`` are shapes and types, ``numbers`` the scalars by name.
    """
    import jax

    kinds = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results]

    @jax.custom_jvp
    def call(*inputs: Any) -> Any:
        one = jax.ffi.ffi_call(name, kinds, vmap_method="sequential")
        return one(*inputs, **dict(numbers))

    @call.defjvp
    def _refused(*_: Any) -> Any:
        raise CallError(
            f"{op}: a kernel has no derivative; give it one by jax.custom_vjp, or stop"
            " gradients by jax.lax.stop_gradient of its inputs"
        )

    return jax.jit(call)


def _place(caller: Caller, argument: int) -> int:
    """The number of an argument among those that are arrays."""
    return sum(not port.is_scalar for port in caller.ports[:argument])


def _spec(caller: Caller) -> list[str]:
    """How JAX passes operands: all arrays, the numbers, the results."""
    numbers = [f"attrs.{port.operand}" for port in caller.ports if port.is_scalar]
    return ["args", *numbers, "rets"]


def _reordered(caller: Caller, function: Any) -> Any:
    """The function, taking operands as JAX passes them."""
    is_scalar = [port.is_scalar for port in caller.ports]
    given = sorted(range(len(is_scalar)), key=is_scalar.__getitem__)
    if given == sorted(given):
        return function
    order = [given.index(place) for place in range(len(given))]

    def call(*values: Any) -> None:
        function(*(values[place] for place in order), *values[len(order) :])

    return tvm_ffi.convert(call)
