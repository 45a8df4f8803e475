"""StableHLO that calls LAPACK, with functions of the same module in the place of these calls."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.frontends.base.module_functions import with_functions

_CALL = re.compile(
    r"stablehlo\.custom_call @lapack_([sdcz])(\w+?)(?:_ffi)?\(([^)]*)\) \{(.*)\}"
    r" : \(([^)]*)\) -> (\(?tensor<[^)\s]*>(?:, tensor<[^)\s]*>)*\)?)"
)
_SETTING = re.compile(
    r"\b(compute_left|compute_right|diag|left|mode|side|trans_x|transpose|uplo) = (\w+)"
)
_SHAPE = re.compile(r"tensor<((?:\d+x)*)(complex<f\d+>|\w+)>")
_DEFINED = re.compile(r"func\.func (?:public|private) @(\w+)")
_DTYPES = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}
_ELEMENTS = {"i32": "int32", "f32": "float32", "f64": "float64"}


def without_lapack(text: str) -> str:
    """The text of a module whose calls of LAPACK are its own functions.

    The text stays as it is where it calls none, and where JAX is not installed.

    Raises:
        MlirError: for a routine that has no such function, all of those that have.
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
        settings = {
            key: chr(int(value)) if value.isdigit() else value
            for key, value in _SETTING.findall(attributes)
        }
        key = kind, name, given, results, *sorted(settings.items())
        prefix = f"lapack_{len(functions)}_"
        if key not in functions:
            given_types, result_types = (_types(one, _DTYPES[kind]) for one in (given, results))
            function = _function(_ALIASES.get(name, name), settings, result_types)
            batch = given_types[0].shape[: -1 if name == "gtsv" else -2]
            functions[key] = _functions(
                function, given_types, len(batch), prefix, is_one_by_one=name in _ONE_BY_ONE
            )
        else:
            prefix = f"lapack_{[*functions].index(key)}_"
        return f"func.call @{prefix}main({operands}) : ({given}) -> {results}"

    return with_functions(_CALL.sub(own, text), functions.values())


def _types(text: str, dtype: str) -> list[TensorType]:
    """The types of tensors; of complex numbers and of floats by the routine's own."""
    return [
        TensorType(tuple(map(int, shape.split("x")[:-1])), _ELEMENTS.get(kind, dtype))
        for shape, kind in _SHAPE.findall(text)
    ]


def _functions(
    function: Callable[..., Any],
    given: Sequence[TensorType],
    batch: int,
    prefix: str,
    *,
    is_one_by_one: bool,
) -> str:
    """A function of matrices, called ``main`` behind a prefix, and what it calls.

    ``batch`` is how many dims are before those of a matrix, whose matrices are computed together,
    or one after the other.
    """
    import jax

    for _ in range(batch):
        function = partial(jax.lax.map, function) if is_one_by_one else jax.vmap(function)
    with jax.enable_x64(any(one.dtype in ("float64", "complex128") for one in given)):
        structs = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in given]
        text = jax.jit(function, keep_unused=True).lower(*structs).as_text("stablehlo")
    body = text[text.index("\n") : text.rindex("}")]
    for defined in _DEFINED.findall(body):
        body = re.sub(rf"@{defined}\b", f"@{prefix}{defined}", body)
    return body.replace("func.func public", "func.func private")


def _function(
    name: str, settings: Mapping[str, str], results: Sequence[TensorType]
) -> Callable[..., Any]:
    from tvm_iree_ext.frontends.lapack import (
        jax_householder,
        jax_jacobi,
        jax_linear_algebra,
        jax_schur,
        jax_schur_real,
    )

    is_lower = settings.get("uplo") == "L"
    match name:
        case "trsm":
            return partial(
                jax_linear_algebra.triangular,
                is_left=settings["side"] == "L",
                is_lower=is_lower,
                turned=settings["trans_x"],
                is_unit=settings["diag"] == "U",
            )
        case "potrf":
            return jax_linear_algebra.cholesky if is_lower else jax_linear_algebra.upper_cholesky
        case "getrf":
            return jax_linear_algebra.lu
        case "geqrf":
            return jax_householder.factors
        case "geqp3":
            return jax_householder.pivoted
        case "orgqr":
            return jax_householder.product
        case "ormqr":
            return partial(
                jax_householder.multiplied,
                is_left=settings["left"] == "true",
                is_turned=settings["transpose"] == "true",
            )
        case "gehrd":
            return jax_householder.hessenberg
        case "sytrd" if is_lower:
            return jax_householder.tridiagonal
        case "gtsv":
            return jax_householder.tridiagonal_system
        case "syevd":
            return partial(
                jax_jacobi.eigenvalues, is_lower=is_lower, has_vectors=settings["mode"] == "V"
            )
        case "gesdd":
            return partial(
                jax_jacobi.singular_values,
                has_vectors=settings["mode"] != "N",
                is_whole=all(one.shape[-1] == one.shape[-2] for one in results[2:4]),
            )
        case "geev":
            return partial(
                jax_schur.eigenvalues,
                has_left=settings["compute_left"] == "V",
                has_right=settings["compute_right"] == "V",
            )
        case "gees" if results[0].dtype.startswith("complex"):
            return jax_schur.schur
        case "gees":
            return jax_schur_real.schur
    raise MlirError(
        f"LAPACK's {name}{_LEFT.get(name, '')}, which JAX calls: it has no form as products and"
        f" loops here; those of {', '.join(_TAKEN)} have one"
    )


_LEFT = {"sytrd": " of an upper triangle"}
_ALIASES = {"heevd": "syevd", "hetrd": "sytrd", "ungqr": "orgqr", "unmqr": "ormqr"}
_ONE_BY_ONE = ("gees", "geev")
"""Routines that take as many steps as a matrix needs."""
_TAKEN = (
    *("cholesky", "lu", "triangular_solve", "tridiagonal_solve", "qr", "ormqr", "hessenberg"),
    *("tridiagonal", "eigh", "svd", "eig", "schur"),
)
