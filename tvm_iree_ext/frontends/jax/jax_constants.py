"""Large constants of JAX functions, such as weights that they close over: arrays beside the text.

    %cst = stablehlo.constant dense<"0x..."> : tensor<4096x4096xf32>

is a load of a global, whose array is the memory that the module of JAX holds.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

_LARGE = 1 << 14  # elements of a constant that does not pass as text
_LEFT_OUT = re.compile(r"stablehlo\.constant dense_resource<__elided__> : (tensor<[\dx]+(\w+)>)")
_TYPES = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}


def text_beside_constants(lowered: Any) -> tuple[str, dict[str, np.ndarray]]:
    """The StableHLO of a lowered function with locations, and its large constants by name.

    All of them stay in the text where one is of a type that cannot be read otherwise.
    """
    try:
        module = lowered.compiler_ir("stablehlo")
        operation = module.operation
        with module.context:
            arrays = list(_large(operation))
        text = str(operation.get_asm(enable_debug_info=True, large_elements_limit=_LARGE))
    except (AttributeError, TypeError, ValueError, RuntimeError):  # another version's bindings
        return whole_text(lowered), {}
    found = _LEFT_OUT.findall(text)
    kinds = [_TYPES.get(element) for _, element in found]
    if text.count("__elided__") != len(found) or kinds != [str(one.dtype) for one in arrays]:
        return whole_text(lowered), {}
    names = iter(range(len(found)))
    body = _LEFT_OUT.sub(
        lambda one: f"util.global.load @jax_constant{next(names)} : {one[1]}", text
    )
    declared = "".join(
        f"util.global private @jax_constant{place} ="
        f' #flow.parameter.named<"jax_constant{place}"> : {kind}\n'
        for place, (kind, _) in enumerate(found)
    )
    start = re.search(r"^module .*\{$", body, re.MULTILINE)
    if start is None:
        return whole_text(lowered), {}
    body = f"{body[: start.end()]}\n{declared}{body[start.end() :]}"
    return body, {f"jax_constant{place}": array for place, array in enumerate(arrays)}


def whole_text(lowered: Any) -> str:
    """The StableHLO of a lowered function, its constants in it."""
    return str(lowered.as_text("stablehlo", debug_info=True))


def _large(operation: Any) -> Iterator[np.ndarray]:
    """The constants that are left out, in the order of the text."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                if inner.operation.name == "stablehlo.constant":
                    value = inner.operation.attributes["value"]
                    if not value.is_splat and len(value) > _LARGE:
                        yield np.asarray(value)
                yield from _large(inner.operation)
