"""StableHLO that calls LAPACK, with functions of the same module in the place of these calls."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

_CALL = re.compile(
    r"stablehlo\.custom_call @lapack_([sd])(potrf|trsm|getrf)_ffi\(([^)]*)\) \{(.*)\}"
    r" : \(([^)]*)\) -> (\(?tensor<[^)\s]*>(?:, tensor<[^)\s]*>)*\)?)"
)
_SETTING = re.compile(r"\b(diag|side|trans_x|uplo) = (\d+) : ui8")
_SHAPE = re.compile(r"tensor<((?:\d+x)+)f\d+>")
_DEFINED = re.compile(r"func\.func (?:public|private) @(\w+)")
_DTYPES = {"s": "float32", "d": "float64"}


def without_lapack(text: str) -> str:
    """The text of a module whose calls of ``potrf``, ``trsm`` and ``getrf`` are its own functions.

    The text stays as it is where it calls none, and where JAX is not installed.
    """
    if not _CALL.search(text):
        return text
    try:
        import jax  # noqa: F401
    except ImportError:
        return text
    functions: dict[tuple[Any, ...], str] = {}

    def own(found: re.Match[str]) -> str:
        kind, name, operands, attributes, given, results = found.groups()
        settings = {key: chr(int(value)) for key, value in _SETTING.findall(attributes)}
        key = kind, name, given, *sorted(settings.items())
        prefix = f"lapack_{len(functions)}_"
        if key not in functions:
            functions[key] = _functions(name, _DTYPES[kind], given, settings, prefix)
        else:
            prefix = f"lapack_{[*functions].index(key)}_"
        return f"func.call @{prefix}main({operands}) : ({given}) -> {results}"

    text = _CALL.sub(own, text)
    start, end = text.rpartition("}")[::2]
    return "\n".join([start, *functions.values(), f"}}{end}"])


def _functions(name: str, dtype: str, given: str, settings: Mapping[str, str], prefix: str) -> str:
    """The functions of one call, called ``main`` behind a prefix, and what it calls."""
    import jax

    shapes = [tuple(map(int, one[:-1].split("x"))) for one in _SHAPE.findall(given)]
    function = _function(name, settings)
    for _ in shapes[0][:-2]:
        function = jax.vmap(function)
    with jax.enable_x64(dtype == "float64"):
        structs = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
        text = jax.jit(function).lower(*structs).as_text("stablehlo")
    body = text[text.index("\n") : text.rindex("}")]
    for defined in _DEFINED.findall(body):
        body = re.sub(rf"@{defined}\b", f"@{prefix}{defined}", body)
    return body.replace("func.func public", "func.func private")


def _function(name: str, settings: Mapping[str, str]) -> Callable[..., Any]:
    from tvm_iree_ext.frontends import jax_linear_algebra as algebra

    is_lower = settings.get("uplo") == "L"
    if name == "trsm":
        return partial(
            algebra.triangular,
            is_left=settings["side"] == "L",
            is_lower=is_lower,
            is_turned=settings["trans_x"] != "N",
            is_unit=settings["diag"] == "U",
        )
    if name == "potrf":
        return algebra.cholesky if is_lower else algebra.upper_cholesky
    return algebra.lu
