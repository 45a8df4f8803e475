"""Arrays of a file, as a program's arguments, and what a program gives beside its results.

An ``.npz`` holds arguments as ``in0``, ``in1``, ... or by the names of the signature, and results
as ``out0``, ``out1``, ...  They need not be of the element types that the program has: NumPy's
files have no bfloat16, and programs of 32 bits are often recorded in 64.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tvm_iree_ext.base import limited_reading
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.base.dtypes import canonical, is_dtype, numpy_dtype
from tvm_iree_ext.base.errors import RecordError
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.base.tolerance import EXACT, Tolerance
from tvm_iree_ext.runtime.strided_arrays import laid

_EXPECTATION_BYTES = 1 << 20
_RESULT = re.compile(r"out\d+")

# For the results of a whole program, whose sums another order of addition changes.
_PROGRAM = {
    "float64": Tolerance(1e-8, 1e-7),
    "complex128": Tolerance(1e-8, 1e-7),
    "float32": Tolerance(1e-5, 1e-4),
    "complex64": Tolerance(1e-5, 1e-4),
    "float16": Tolerance(1e-3, 5e-3),
    "bfloat16": Tolerance(1e-2, 3e-2),
}


def _of_dtype(dtype: str) -> Tolerance:
    """The tolerance of a program's result of this type; integers and bools are exact."""
    return _PROGRAM.get(canonical(dtype) if is_dtype(dtype) else dtype, EXACT)


def read_arrays(path: Path | str) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz``, by name.

    Raises:
        RecordError: for a file that is absent, no ``.npz``, damaged, or holds Python objects.
    """
    try:
        with limited_reading.opened(path) as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror or error}") from None
    except (
        *(AttributeError, TypeError),  # a file of one array, which has no names
        *(ValueError, EOFError, MemoryError, zipfile.BadZipFile, NotImplementedError),
    ) as error:
        raise RecordError(f"{path} is no sound .npz: {error}") from None


def write_arrays(path: Path | str, results: Sequence[Any]) -> None:
    """Results as the ``.npz`` that they can be compared with: ``out0``, ``out1``, ...

    Types that NumPy's files have not are written as float32, which holds all of their numbers.

    Raises:
        RecordError: where the file cannot be written.
    """
    arrays: dict[str, Any] = {}
    for place, result in enumerate(results):
        array = np.asarray(result)
        arrays[f"out{place}"] = array.astype(np.float32) if array.dtype.kind == "V" else array
    try:
        with open(path, "wb") as file:
            np.savez(file, **arrays)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from None


def arguments(name: str, signature: Signature, arrays: Mapping[str, np.ndarray]) -> list[Any]:
    """Arguments of a call of the function ``name``, in order, of its element types and strides.

    Raises:
        RecordError: for arrays that are missing or too many, and where an element type does not
            hold an element.
    """
    wanted = signature.arguments
    came = {key for key in arrays if not _RESULT.fullmatch(key)}
    numbered = [f"in{place}" for place in range(len(wanted))]
    named = [operand.name for operand in wanted]
    keys = named if came == set(named) else numbered
    if came != set(keys):
        choices = dict.fromkeys(", ".join(names) or "none" for names in (numbered, named))
        raise RecordError(
            f"{name}: the arrays of the arguments are {', '.join(sorted(came)) or 'none'};"
            f" expected {' or '.join(choices)}"
        )
    taken = [
        arrays[key]
        if operand.role == "unused"
        else laid(as_operand(key, arrays[key], operand), operand.strides)
        for key, operand in zip(keys, wanted, strict=True)
    ]
    return [
        array[()] if operand.role == "scalar" and not array.ndim else array
        for array, operand in zip(taken, wanted, strict=True)
    ]


def as_operand(key: str, array: np.ndarray, operand: Operand) -> np.ndarray:
    """An array in the operand's element type, which must hold every element.

    MLIR's integers have no sign: with and without it, those of one width are the same bits.

    Raises:
        RecordError: for an element that the type does not hold, naming its position.
    """
    wanted = numpy_dtype(operand.dtype) if is_dtype(operand.dtype) else np.dtype(operand.dtype)
    array = _of_bits(array, wanted)
    if array.dtype == wanted:
        return array
    if array.dtype.newbyteorder("=") == wanted:
        return array.astype(wanted)
    if {array.dtype.kind, wanted.kind} == {"i", "u"} and array.itemsize == wanted.itemsize:
        return array.astype(array.dtype.newbyteorder("=")).view(wanted)
    if not _is_numeric(array.dtype):
        raise RecordError(f"{key} has elements of {array.dtype}; expected {operand.dtype}")
    with np.errstate(all="ignore"):
        found = _cast(array, wanted)
        back = _cast(found, array.dtype)
        wrong = ~((back == array) | ((back != back) & (array != array)))
        if {array.dtype.kind, wanted.kind} == {"i", "u"}:
            wrong |= (array < 0) != (found < 0)
    if wrong.any():
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        at = f"[{', '.join(map(str, index))}]" if index else ""
        raise RecordError(
            f"{key}{at} is {array[index]!s}, a {array.dtype}, which {operand.dtype} does not hold"
        )
    return found


def _of_bits(array: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """An array of the bytes of ``wanted``, as NumPy reads what it does not know, as its numbers."""
    is_raw = array.dtype.type is np.void and not array.dtype.names and wanted.kind == "V"
    if not is_raw or array.itemsize != wanted.itemsize:
        return array
    return np.ascontiguousarray(array).reshape(array.shape).view(wanted)


def _is_numeric(dtype: np.dtype) -> bool:
    return dtype.kind in "biufc" or hasattr(ml_dtypes, dtype.name)


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Cast like ``astype``; by float64 where NumPy has no way between the two."""
    if "c" in (array.dtype.kind, dtype.kind):
        array = array.astype(np.complex128)
        return array.astype(dtype) if dtype.kind == "c" else array.real.astype(dtype)
    return array.astype(dtype)


@dataclass(frozen=True)
class Settings:
    """How results are compared: in place of the tolerance of their element type, or not at all."""

    rtol: float | None = None
    atol: float | None = None
    skip: bool = False


@dataclass(frozen=True)
class Expectation:
    """How the results of a program are compared: all of them, and single ones by ``out1``."""

    common: Settings = Settings()
    outputs: Mapping[str, Settings] = field(default_factory=dict)

    def skips(self, name: str) -> bool:
        """Whether a result is not compared."""
        return self.common.skip or self.outputs.get(name, self.common).skip

    def tolerance(self, name: str, dtype: str) -> Tolerance:
        """That of a result."""
        found = _of_dtype(dtype)
        absolute, relative = found.absolute, found.relative
        for given in (self.common, self.outputs.get(name, self.common)):
            absolute = absolute if given.atol is None else given.atol
            relative = relative if given.rtol is None else given.rtol
        return Tolerance(absolute, relative)


def read_expectation(path: Path | str) -> Expectation:
    """Read an expectation from JSON: ``{"rtol": 1e-3, "atol": 1e-5, "out1": {"skip": true}}``.

    ``"skip": ["out1"]`` is short for the last. A ``comment`` is taken for what it is.

    Raises:
        RecordError: for a file that cannot be read, is not JSON, or says something else.
    """
    try:
        data = limited_reading.json_value(limited_reading.content(path, _EXPECTATION_BYTES))
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise RecordError(f"{path} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise RecordError(f"{path} holds no JSON object")
    data.pop("comment", None)
    outputs = {name: data.pop(name) for name in list(data) if _RESULT.fullmatch(name)}
    skipped = data.get("skip")
    if isinstance(skipped, list):
        for name in skipped:
            if not (isinstance(name, str) and _RESULT.fullmatch(name)):
                raise RecordError(f"{path}: skip has {name!r}; expected names such as 'out0'")
            if isinstance(given := outputs.setdefault(name, {}), dict):
                given["skip"] = True
        del data["skip"]
    return Expectation(
        _settings(f"{path}:", data),
        {name: _settings(f"{path}: {name}:", given) for name, given in outputs.items()},
    )


def _settings(where: str, data: Any) -> Settings:
    if not isinstance(data, dict):
        raise RecordError(f"{where} {data!r} is no JSON object of rtol, atol and skip")
    for name, value in data.items():
        if name not in ("rtol", "atol", "skip"):
            raise RecordError(f"{where} no setting {name!r}; there are rtol, atol, skip")
        if name == "skip":
            is_sound = isinstance(value, bool)
        else:
            is_sound = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        if not is_sound:
            raise RecordError(f"{where} {name} is {value!r}")
    return Settings(**data)


def differences(
    signature: Signature,
    results: Sequence[Any],
    arrays: Mapping[str, np.ndarray],
    expectation: Expectation | None = None,
) -> list[str]:
    """Differences of a program's results from the ``out0``, ... of a file.

    Each names the result, the first wrong element and its error; there is none where all is right.

    Raises:
        RecordError: where the file has other results than the program.
    """
    dtypes = [np.asarray(result).dtype for result in results]
    found = []
    for place, want, allowed in expected(signature, dtypes, arrays, expectation):
        if wrong := first_difference(f"out{place}", np.asarray(results[place]), want, allowed):
            found.append(wrong)
    return found


def expected(
    signature: Signature,
    dtypes: Sequence[np.dtype],
    arrays: Mapping[str, np.ndarray],
    expectation: Expectation | None = None,
) -> Iterator[tuple[int, np.ndarray, Tolerance]]:
    """Place, right elements and tolerance of each result that is compared.

    ``dtypes`` are those of the results.

    Raises:
        RecordError: where the file has other results than the program.
    """
    expectation = expectation or Expectation()
    numbered = [f"out{place}" for place in range(len(dtypes))]
    came = {key for key in arrays if _RESULT.fullmatch(key)}
    compared = [name for name in numbered if name in came or not expectation.skips(name)]
    if came != set(compared):
        raise RecordError(
            f"the recorded results are {', '.join(sorted(came)) or 'none'};"
            f" expected {', '.join(numbered)}"
        )
    for place, (name, dtype) in enumerate(zip(numbered, dtypes, strict=True)):
        if expectation.skips(name):
            continue
        operand, want = signature.results[place], _of_bits(arrays[name], dtype)
        if {dtype.kind, want.dtype.kind} == {"i", "u"} and dtype.itemsize == want.itemsize:
            want = want.view(dtype)
        if not _is_numeric(want.dtype):
            raise RecordError(f"{name} has elements of {want.dtype}; expected {operand.dtype}")
        yield place, want, expectation.tolerance(name, operand.dtype)
