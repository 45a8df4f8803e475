"""One call's arrays, checked against a signature and brought into the form that a library takes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.signature import Extent, Operand, Signature, extent_value, shape_text
from tvm_iree_ext.runtime import arrays
from tvm_iree_ext.runtime.arrays import Port

_PLANS = 256  # how many combinations of shapes are remembered as checked

Shape = tuple[int, ...]
PartialShape = tuple[int | None, ...]
Copies = list[tuple[int, int]] | None


class Caller:
    """The calling side of one function, whose ``name`` begins the messages.

    ``gpu`` is as of :class:`~tvm_iree_ext.runtime.arrays.Port`.
    """

    def __init__(self, name: str, signature: Signature, gpu: int | None = None) -> None:
        self.op = name
        self.signature = signature
        self.arguments = signature.arguments
        self._results = signature.results
        self.ports = tuple(Port(name, operand, gpu) for operand in self.arguments)
        self.result_ports = tuple(Port(name, operand, gpu) for operand in self._results)
        places = [place for place, port in enumerate(self.ports) if not port.is_scalar]
        # Its kind is that of the results; a tensor of rank 0 may come as a number.
        places.sort(key=lambda place: self.ports[place].has_one_element)
        self._first_array = places[0] if places else None
        # The input in whose place each result may be; a GPU's kernels are handed no such pair.
        self._homes = [None if gpu else one.in_place_of for one in self._results]
        self._shaped_by_out = bool(signature.result_symbols)
        self._plans: dict[tuple[Any, ...], tuple[Any, Copies]] = {}
        self._defaults: dict[tuple[Any, ...], Any] = {}

    @property
    def has_words(self) -> bool:
        """Whether some elements are passed as their words."""
        return any(operand.words for operand in self.signature.operands)

    @property
    def takes_plain_arrays(self) -> bool:
        """Whether NumPy arrays can be all that a call has, and TVM's own checks and the guard's
        (:mod:`tvm_iree_ext.codegen.cpu.argument_guard`) leave nothing to be asked of them.
        """
        operands = self.signature.operands
        return (
            bool(self.arguments)
            and all(port.is_exported for port in (*self.ports, *self.result_ports))
            and not any(operand.least or 0 in operand.shape for operand in operands)
        )

    def static_results(self) -> list[tuple[Shape, np.dtype]] | None:
        """Shapes and dtypes of new results; None where they follow from the arguments."""
        if self.signature.symbols:
            return None
        shapes = self.signature.result_shapes({})
        return [(s, port.numpy) for s, port in zip(shapes, self.result_ports, strict=True)]

    def completed(
        self, arguments: tuple[Any, ...], named: Mapping[str, Any], out: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """All arguments in order, those that did not come filled with their defaults.

        As they came where one without a default is missing, which who looks next complains of.

        Raises:
            CallError: for one whose extents follow from none that came.
        """
        given = dict(zip((one.name for one in self.arguments), arguments, strict=False)) | dict(
            named
        )
        missing = [one for one in self.arguments if one.name not in given]
        if not missing or any(one.default is None for one in missing):
            return arguments, dict(named)
        came = [given.get(one.name) for one in self.arguments]
        bound = self.signature.bind(self.op, [getattr(one, "shape", None) for one in came])
        for result, shape in zip(self._results, _shapes_of(out) or (), strict=False):
            for extent, size in zip(result.shape, shape, strict=False):
                if isinstance(extent, str) and extent.isidentifier():
                    bound.setdefault(extent, size)
        like = next((one for one in came if hasattr(one, "shape")), None)
        for operand, port in zip(self.arguments, self.ports, strict=True):
            if operand in missing:
                given[operand.name] = self._filled(operand, port, bound, like)
        return tuple(given[one.name] for one in self.arguments), {}

    def _filled(self, operand: Operand, port: Port, bound: Mapping[str, int], like: Any) -> Any:
        """An array of the default of an operand, of the kind of another; made once."""
        try:
            shape = tuple(extent_value(extent, bound) for extent in operand.shape)
        except KeyError as error:
            raise CallError(
                f"{self.op}: {operand.name} is missing, and its extent {error.args[0]} follows"
                " from no other argument; give it, or out"
            ) from None
        key = (operand.name, shape, type(like), str(getattr(like, "device", "")))
        if key not in self._defaults:
            if len(self._defaults) >= _PLANS:
                self._defaults.clear()
            self._defaults[key] = arrays.filled(like, shape, port, operand.default)
        return self._defaults[key]

    def inputs(self, arguments: tuple[Any, ...]) -> tuple[list[Shape | None], list[Any]]:
        """The shapes of the arguments (None for a scalar), and what is taken for them.

        Raises:
            CallError: for something of another kind, dtype, byte order or device.
        """
        shapes: list[Shape | None] = []
        passed: list[Any] = []
        for value, port in zip(arguments, self.ports, strict=True):
            kind = type(value)
            # carray: contiguous, aligned and writable.
            if kind is np.ndarray and value.dtype == port.plain_array and value.flags.carray:
                shapes.append(value.shape)
                passed.append(value)
            elif kind is port.plain_number:
                shapes.append(None)
                passed.append(value)
            else:
                shape, taken = port.take(value)
                shapes.append(shape)
                passed.append(taken)
        return shapes, passed

    def like(self, arguments: tuple[Any, ...]) -> Any:
        """The array whose kind the results have."""
        return None if self._first_array is None else arguments[self._first_array]

    def plan(self, shapes: Sequence[Shape | None], out: Any) -> tuple[Sequence[Shape], Copies]:
        """The results' shapes; and where there is nothing to compute, which are of which arguments.

        Of results and arguments the places, and None where there is something to compute.

        Raises:
            CallError: where the shapes do not fit the signature, or leave a result undefined.
        """
        key: tuple[Any, ...] = tuple(shapes)
        if self._shaped_by_out:
            key = (*key, _shapes_of(out))
        return self._plans.get(key) or self._plan(key)

    def for_library(
        self,
        passed: list[Any],
        tensors: list[Any],
        shapes: Sequence[Shape | None],
        result_shapes: Sequence[Shape],
    ) -> tuple[list[Any], list[Any]]:
        """The arrays, others in place of those without elements, whose strides TVM refuses."""
        if not any(shape and 0 in shape for shape in (*shapes, *result_shapes)):
            return passed, tensors

        def taken(ports: Sequence[Port], values: list[Any], shapes: Sequence[Any]) -> list[Any]:
            return [
                arrays.empty_tensor(shape, port) if 0 in (shape or ()) else value
                for port, value, shape in zip(ports, values, shapes, strict=True)
            ]

        return taken(self.ports, passed, shapes), taken(self.result_ports, tensors, result_shapes)

    def result_shapes(self, shapes: Sequence[Shape | None]) -> Sequence[Shape] | None:
        """The results' shapes; None where the program must have run to know them.

        Raises:
            CallError: where the shapes do not fit the signature.
        """
        key = tuple(shapes)
        found = self._plans.get(key)
        if found is None:
            bound = self.signature.bind(self.op, shapes)
            known = None if self._shaped_by_out else self._result_shapes(bound)
            found = self._remember(key, (known, None))
        return found[0]

    def _plan(self, key: tuple[Any, ...]) -> tuple[Sequence[Any], Copies]:
        """Plan a call and remember the plan; see :meth:`plan`."""
        shapes = key[: len(self.arguments)]
        bound = self.signature.bind(self.op, shapes)
        self.signature.bind_results(self.op, bound, key[-1] if self._shaped_by_out else None)
        result_shapes = self._result_shapes(bound)
        if (operand := self.signature.undefined(bound)) is not None:
            shape = tuple(extent_value(extent, bound) for extent in operand.shape)
            raise CallError(
                f"{self.op}: {operand.name} is empty, {shape_text(shape)}, and a result is not:"
                " its value is undefined"
            )
        inits = self.signature.of_nothing(bound)
        if inits is None:
            return self._remember(key, (result_shapes, None))
        arguments = [operand.name for operand in self.arguments]
        results = [operand.name for operand in self._results]
        pairs = [(results.index(one), arguments.index(init)) for one, init in inits.items()]
        return self._remember(key, (result_shapes, pairs))

    def _result_shapes(self, bound: Mapping[str, int]) -> list[Shape]:
        """The results' shapes, where no extent that follows from others is below 0."""
        try:
            shapes = self.signature.result_shapes(bound)
        except ZeroDivisionError:
            raise CallError(f"{self.op}: a result has tiles of extent 0") from None
        for operand, shape in zip(self._results, shapes, strict=True):
            for axis, extent in enumerate(shape):
                if extent < 0:
                    raise CallError(
                        f"{self.op}: {operand.name} axis {axis} would have extent {extent}"
                        f" ({operand.shape[axis]}); expected one from 0"
                    )
        return shapes

    def _remember(self, key: tuple[Any, ...], plan: tuple[Any, Copies]) -> tuple[Any, Copies]:
        if len(self._plans) >= _PLANS:
            self._plans.clear()
        self._plans[key] = plan
        return plan

    def _is_plain(self, out: Any, shapes: Sequence[PartialShape], passed: Sequence[Any]) -> bool:
        """Whether ``out`` is one NumPy array that is passed as it is, as most are.

        Asked first, because a small kernel takes no longer than the other checks.
        """
        if type(out) is not np.ndarray or len(shapes) != 1 or out.shape != shapes[0]:
            return False
        if out.dtype != self.result_ports[0].plain_array or not out.flags.carray:
            return False
        for value in passed:
            # Bounds that do not meet: exact for contiguous arrays.
            if type(value) is not np.ndarray or np.may_share_memory(out, value):
                return False
        return True

    def likely_outputs(
        self, out: Any, shapes: Sequence[Shape | None], passed: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The caller's arrays for results of which some extents only the run tells, so far checked.

        Raises:
            CallError: as :meth:`outputs`, where what is known of the shapes does not fit.
        """
        bound = self.signature.bind(self.op, shapes)
        return self.outputs(out, [known_shape(one, bound) for one in self._results], passed)

    def check_extents(self, tensors: Sequence[Any], shapes: Sequence[Sequence[int]]) -> None:
        """Raise CallError where arrays for the results have not the shapes that came out."""
        for port, tensor, shape in zip(self.result_ports, tensors, shapes, strict=True):
            port.check_shape(tuple(tensor.shape), tuple(shape))

    def outputs(
        self, out: Any, shapes: Sequence[PartialShape], passed: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The caller's arrays for the results, checked, and what is taken for them.

        An extent that is not known is None.

        Raises:
            CallError: for arrays of other shapes or dtypes, and for those that overlap, unless
                a result is exactly where the input is in whose place it may be.
        """
        if self._is_plain(out, shapes, passed):
            return [out], [out]
        results = list(out) if isinstance(out, tuple | list) else [out]
        if len(results) != len(self._results):
            raise CallError(
                f"{self.op}: out has {len(results)} arrays; expected {len(self._results)}:"
                f" {', '.join(o.name for o in self._results)}"
            )
        spans = [
            (port.operand, *arrays.span(value, port.passed_item))
            for port, value in zip(self.ports, passed, strict=True)
            if not port.is_scalar
        ]
        tensors = []
        for port, home, value, expected in zip(
            self.result_ports, self._homes, results, shapes, strict=True
        ):
            shape, tensor = port.take_out(value)
            port.check_shape(shape, expected)
            start, end = arrays.span(tensor, port.passed_item)
            for name, other_start, other_end in spans:
                in_place = name == home and (start, end) == (other_start, other_end)
                if start < other_end and other_start < end and not in_place:
                    raise CallError(f"{port.name} shares memory with {name}")
            spans.append((port.operand, start, end))
            tensors.append(tensor)
        return results, tensors


def ordered(
    op: str, operands: Sequence[Operand], arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """All arguments in the order of ``operands``, some of which may be named.

    Raises:
        CallError: for one too many, missing, unknown, or given twice.
    """
    if not named and len(arguments) == len(operands):
        return arguments
    names = [operand.name for operand in operands]
    optional = {operand.name for operand in operands if operand.default is not None}
    listed = ", ".join(f"[{one}]" if one in optional else one for one in names) or "none"
    if len(arguments) > len(names):
        raise CallError(f"{op}: {len(arguments)} arguments came; expected {len(names)}: {listed}")
    for name in named:
        if name not in names:
            raise CallError(f"{op}: has no argument {name!r}; the arguments are {listed}")
        if name in names[: len(arguments)]:
            raise CallError(f"{op}: {name} came twice, by position and by name")
    rest = names[len(arguments) :]
    if absent := [name for name in rest if name not in named]:
        missing = [name for name in absent if name not in optional] or absent
        inits = [name for name in missing if name.startswith("init_") or name.endswith("_init")]
        note = f"; of {' and '.join(inits)} no default is known" if inits else ""
        raise CallError(f"{op}: {', '.join(missing)} missing; the arguments are {listed}{note}")
    return (*arguments, *(named[name] for name in rest))


def known_shape(operand: Operand, bound: Mapping[str, int]) -> PartialShape:
    """The shape of an operand for these symbols; None for extents that hang on others."""

    def known(extent: Extent) -> int | None:
        try:
            return extent_value(extent, bound)
        except KeyError:
            return None

    return tuple(map(known, operand.shape))


def _shapes_of(out: Any) -> tuple[tuple[int, ...], ...] | None:
    """The shapes of the ``out`` arrays, where there are any."""
    if out is None:
        return None
    several = out if isinstance(out, tuple | list) else (out,)
    return tuple(tuple(getattr(one, "shape", ())) for one in several)
