"""The specification's example cases: a JSON file of inputs with the results that they must give.

    {"schema": 1, "cases": [{
        "id": "scan/sum", "op": "iree_linalg_ext.scan", "attrs": {...},
        "inputs":   {"input":  {"dtype": "f32", "shape": [2], "data": [1.0, "inf"]}, ...},
        "expected": {"output": {"dtype": "f32", "shape": [2], "data": [1.0, "inf"]}, ...},
        "tolerance": 1e-5}, ...]}

Data are nested row-major lists; i1 is 0 and 1, and what is not finite is "nan", "inf", "-inf".
The tolerance is absolute, and absent means exact.

Beside ``cases`` a file may have ``rejections``, which must be refused with the code ``error``, and
counts of ops after the vector patterns (``stage_counts``, ``unroll_counts``, ``lowering_counts``)
and ``cast_costs``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes, limited_reading
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.catalog.base.entry import Run, Tolerance
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.registry import ENTRIES
from tvm_iree_ext.verify import layout_cases, vector_cases, vector_pattern_cases

_SCHEMA = 1
_BYTES = 1 << 30

# Questions about an attribute: there is no kernel to be built.
_ANSWERED: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "nested_layout": layout_cases.run_case,
    "#iree_linalg_ext.iterator_type": lambda _: {
        one.name.lower(): one.value for one in ops.IteratorType
    },
}


class ExampleError(ExtError, ValueError):
    """A file of examples cannot be read, or one of its cases is malformed."""


class NotSupported(Exception):
    """No kernel can be built for a case: the op or the schedule is not there yet."""


@dataclass(frozen=True)
class ExampleCase:
    """A case of a file; ``data`` is its JSON."""

    id: str
    op: str
    data: Mapping[str, Any]

    def check(self, run: Run) -> str:
        """The error in the results, for a message; empty when they are right.

        Raises:
            NotSupported: for an op that is not registered.
            ExtError: when the case is malformed, or its op is refused.
        """
        # An op that only lives inside another is computed with it.
        entry = ENTRIES.get(self.data.get("attrs", {}).get("parent", self.op))
        is_vector = vector_cases.is_vector_op(self.op)
        if entry is None and self.op not in _ANSWERED and not is_vector:
            raise NotSupported("not supported yet")
        try:
            expected = {name: _value(one) for name, one in self.data["expected"].items()}
            inputs = {name: _array(one) for name, one in self.data["inputs"].items()}
            tolerance = Tolerance(float(self.data.get("tolerance", 0.0)), 0.0)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ExampleError(f"malformed case: {type(error).__name__}: {error}") from None
        data = {**self.data, "inputs": inputs}
        if is_vector:  # what the op means, and then what its kernel gives
            ways = (vector_cases.meaning, run)
            answers: Iterator[Mapping[str, Any]] = (
                vector_cases.results(data, expected, way) for way in ways
            )
        elif self.op in _ANSWERED:
            answers = iter([_ANSWERED[self.op](self.data)])
        else:
            assert entry is not None
            answers = iter([entry.run_example(data, run)])
        return next(filter(None, (_first_wrong(a, expected, tolerance) for a in answers)), "")


@dataclass(frozen=True)
class Rejection:
    """A case that must be refused; ``data`` is its JSON."""

    id: str
    op: str
    data: Mapping[str, Any]

    def check(self, run: Run) -> str:
        """The error in the refusal; empty when its code is the one that is expected."""
        code, expected = vector_cases.refusal(self.data), self.data["error"]
        return "" if code == expected else f"refused with {code or 'nothing'}, expected {expected}"


@dataclass(frozen=True)
class PatternCase:
    """Counts of ops after vector patterns, or a cost; ``data`` is its JSON, ``op`` the section."""

    id: str
    op: str
    data: Mapping[str, Any]

    def check(self, run: Run) -> str:
        """The error in the counts; empty when they are right."""
        try:
            return vector_pattern_cases.wrong(self.op, self.data)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ExampleError(f"malformed case: {type(error).__name__}: {error}") from None


Case: TypeAlias = ExampleCase | Rejection | PatternCase

_KINDS: Mapping[str, type[ExampleCase] | type[Rejection]] = {
    "cases": ExampleCase,
    "rejections": Rejection,
}


def _first_wrong(
    results: Mapping[str, Any], expected: Mapping[str, Any], tolerance: Tolerance
) -> str:
    if results.keys() != expected.keys():
        return f"results are {', '.join(results)}, expected {', '.join(expected)}"
    found = (_wrong(name, results[name], want, tolerance) for name, want in expected.items())
    return next(filter(None, found), "")


def _wrong(name: str, got: Any, want: Any, tolerance: Tolerance) -> str:
    if not isinstance(want, np.ndarray):
        return "" if got == want else f"{name} is {got}, expected {want}"
    if not isinstance(got, np.ndarray | np.generic):
        return f"{name} is {got}, expected an array"
    if got.dtype != want.dtype:
        return f"{name} is {got.dtype}, expected {want.dtype}"
    return first_difference(name, got, want, tolerance)


def _value(data: Any) -> Any:
    """An expected value: an array, a layout, None for "no layout", or a number."""
    if data is None or isinstance(data, int):
        return data
    return NestedLayout(**data) if "subgroup_tile" in data else _array(data)


def _array(data: Mapping[str, Any]) -> np.ndarray:
    dtype = dtypes.numpy_dtype(data["dtype"])
    wide = np.dtype(np.float64) if data["dtype"] in ("bf16", "f16") else dtype
    array = np.array(data["data"], wide).astype(dtype)
    shape = tuple(data["shape"])
    if array.shape != shape and array.size:  # [] may stand for any empty shape
        raise ValueError(f"data have shape {list(array.shape)}, and shape says {list(shape)}")
    return array.reshape(shape)


def read_examples(path: Path | str, ops: Collection[str] | None = None) -> list[Case]:
    """The cases of a file, in its order; only those of ``ops``, named with or without dialect.

    Raises:
        ExampleError: for a file that cannot be read, is no file of examples, or has no case of
            one of the ``ops``.
    """
    path = Path(path)
    try:
        data = limited_reading.json_value(limited_reading.content(path, _BYTES))
    except OSError as error:
        raise ExampleError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ExampleError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("cases"), list):
        raise ExampleError(f"{path} holds no examples: expected an object with a list 'cases'")
    if data.get("schema") != _SCHEMA:
        raise ExampleError(f"{path} has schema {data.get('schema')!r}; expected {_SCHEMA}")
    cases: list[Case] = []
    for section, kind in _KINDS.items():
        for number, case in enumerate(data.get(section, ())):
            if not isinstance(case, dict) or not all(
                isinstance(case.get(key), str) for key in ("id", "op")
            ):
                raise ExampleError(f"{path}: {section}: case {number} lacks an 'id' or an 'op'")
            cases.append(kind(case["id"], case["op"], case))
    for section in vector_pattern_cases.SECTIONS:
        for number, case in enumerate(data.get(section, ())):
            try:
                name = vector_pattern_cases.name_of(section, case)
            except (KeyError, TypeError) as error:
                raise ExampleError(f"{path}: {section}: case {number}: {error!r}") from None
            cases.append(PatternCase(name, f"vector.{section}", case))
    if ops is None:
        return cases
    known = sorted({case.op for case in cases})
    if missing := [op for op in ops if not any(is_named(one, op) for one in known)]:
        raise ExampleError(f"{path} has no case of {', '.join(missing)}; it has {', '.join(known)}")
    return [case for case in cases if any(is_named(case.op, op) for op in ops)]


def is_named(op: str, name: str) -> bool:
    """Whether ``name`` is ``op``'s, with or without the dialect."""
    return name in (op, op.partition(".")[2])
