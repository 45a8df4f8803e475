"""ONNX's own tests, those of the package ``onnx``: of nodes, and of small models."""

import contextlib
import functools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import ExtError, OnnxError
from tvm_iree_ext.base.tolerance import Tolerance
from tvm_iree_ext.conformance.judging import judged
from tvm_iree_ext.conformance.outcomes import SuiteCase, Verdict
from tvm_iree_ext.frontends.onnx.onnx_models import from_onnx

_KINDS = ("node", "simple", "real", "pytorch-converted", "pytorch-operator")
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
           "RandomUniformLike")  # fmt: skip
_FEW = 64  # elements of an input that may be axes or extents


class OnnxSuite:
    """The tests of ``onnx.backend.test``, by their names there; tolerances are theirs.

    An input that no front end takes while it is not known, such as axes, is made a constant; the
    outcome says which.
    """

    def __init__(self) -> None:
        try:
            import onnx.backend.test.loader as loader
        except ImportError as error:
            raise OnnxError(
                f"onnx is not installed: {error}; pip install 'tvm-iree-ext[onnx]'"
            ) from None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [test for kind in _KINDS for test in loader.load_model_tests(kind=kind)]
        self._tests = {_name(test): test for test in found}

    @functools.cached_property
    def _cases(self) -> list[SuiteCase]:
        ops = {name: _op(test) for name, test in self._tests.items()}
        cases = []
        for name, test in self._tests.items():
            whole = name.partition("_expanded")[0]
            op = f"{ops[whole]} expanded" if whole != name and whole in ops else ops[name]
            drops = "training_dropout" in name and "zero_ratio" not in name
            is_random = op.partition(" ")[0] in _RANDOM or drops
            skip = "random numbers: any are right" if is_random else ""
            cases.append(SuiteCase(name, op, _type(test), skip))
        return cases

    def cases(self) -> Sequence[SuiteCase]:
        """One for each test."""
        return self._cases

    def run(self, case: SuiteCase) -> Verdict:
        """Build the model, and run it with all arguments that the test has."""
        test = self._tests[case.name]
        tolerance = Tolerance(test.atol, test.rtol)
        verdict = Verdict("refused", "the test has no data", "onnx")
        with _model(test) as model:
            names = _inputs(model)
            for arguments, wanted in _data(test, model):
                given = dict(zip(names, arguments, strict=False))
                results, note = _results(model, given)
                verdict = judged(results, _arrays(wanted), tolerance, note)
                if verdict.kind != "right":
                    break
        return verdict


def suite(_seed: int) -> OnnxSuite:
    """The suite, which draws nothing."""
    return OnnxSuite()


def _results(model: Any, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], str]:
    """What the program gives, and which of its inputs were constants."""
    try:
        return _called(model, given, {}), ""
    except ExtError as refusal:
        fixed = _extents(model, given)
        if not fixed:
            raise
        try:
            called = _called(model, given, fixed)
        except ExtError:
            raise refusal from None
        return called, f"with constants {', '.join(fixed)}"


def _called(model: Any, given: Mapping[str, Any], fixed: Mapping[str, Any]) -> tuple[Any, ...]:
    with scratch() as folder:
        shapes = {name: _shapes(one) for name, one in given.items() if _is_no_array(one)}
        program = from_onnx(model, folder=folder / "program", shapes=shapes, constants=fixed)
        arguments = _arrays(one for name, one in given.items() if name not in fixed)
        results = program(*map(_words, arguments))
    return results if isinstance(results, tuple) else (results,)


def _is_no_array(one: Any) -> bool:
    """Whether it is a sequence, or absent."""
    return one is None or isinstance(one, list)


def _shapes(one: Any) -> list[tuple[int, ...]] | None:
    return None if one is None else [np.shape(array) for array in one]


def _arrays(values: Iterable[Any]) -> list[Any]:
    """The arrays of several values: those that sequences hold, too, and none for what is absent."""
    found: list[Any] = []
    for one in values:
        found += [] if one is None else one if isinstance(one, list) else [one]
    return found


def _words(one: Any) -> Any:
    """An array as programs take it: of a narrow type its words."""
    dtype = getattr(one, "dtype", None)
    if dtype is None or dtype.itemsize > 1 or dtype.kind in "biu":
        return one
    return one.view("int8" if str(dtype).startswith("int") else "uint8")


def _extents(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs after the first that are few numbers in a line or one: axes, extents, scales, k."""
    some = list(given.items())[1:]
    if {node.op_type for node in model.graph.node} <= {"ConstantOfShape", "If", "Loop", "Range"}:
        some = list(given.items())
    return {
        name: one
        for name, one in some
        if isinstance(one, np.ndarray | np.generic) and one.ndim < 2 and one.size <= _FEW
    }


def _name(test: Any) -> str:
    return str(test.name) if test.kind == "node" else f"{test.kind}/{test.name}"


def _op(test: Any) -> str:
    if test.kind != "node":
        return f"{test.kind} models"
    ops = dict.fromkeys(node.op_type for node in test.model.graph.node)
    named = [op for op in ops if op.lower() in test.name.replace("_", "")]
    return str(max(named, key=len) if named else next(iter(ops)))


def _type(test: Any) -> str:
    """The element type of the first input, or output, of what is at hand without reading files."""
    if test.model is None:
        return "float32"
    graph = test.model.graph
    kind = next(iter([*graph.input, *graph.output])).type
    what = kind.WhichOneof("value")
    if what != "tensor_type":
        return str(what).removesuffix("_type")
    import onnx

    if kind.tensor_type.elem_type == onnx.TensorProto.STRING:
        return "string"
    return str(onnx.helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type))


@contextlib.contextmanager
def _model(test: Any) -> Iterator[Any]:
    """The ``ModelProto`` of a test."""
    if test.model is not None:
        yield test.model
        return
    import onnx

    yield onnx.load(_model_path(test))


def _model_path(test: Any) -> Path:
    if test.model_dir is not None:
        return Path(test.model_dir) / "model.onnx"
    import onnx

    return Path(onnx.__file__).parents[1] / test.url  # as the package names its own files


def _inputs(model: Any) -> list[str]:
    constants = {one.name for one in model.graph.initializer}
    return [one.name for one in model.graph.input if one.name not in constants]


def _data(test: Any, model: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Arguments and results of a test: those it holds, or those in files beside its model."""
    if test.data_sets is not None:
        for several in test.data_sets:
            yield tuple([_array(one) for one in part] for part in several)  # type: ignore[misc]
        return
    if test.model_dir is not None:
        for folder in sorted(Path(test.model_dir).glob("test_data_set*")):
            graph = model.graph
            yield _saved(folder, "input", graph.input), _saved(folder, "output", graph.output)
        return
    # The light models compute from constants and an input of zeros to ones.
    path = _model_path(test)
    name = _inputs(model)[0]
    kind = next(one.type.tensor_type for one in model.graph.input if one.name == name)
    shape = tuple(extent.dim_value for extent in kind.shape.dim)
    count = int(np.prod(shape))
    import onnx

    example = (np.arange(count, dtype=np.float32) / count).reshape(shape)
    wanted = onnx.load_tensor(path.with_name(f"{path.stem}_output_0.pb"))
    yield [example], [onnx.numpy_helper.to_array(wanted)]


def _array(one: Any) -> Any:
    """An array of what a test has: one, or a ``TensorProto``."""
    import onnx

    return onnx.numpy_helper.to_array(one) if isinstance(one, onnx.TensorProto) else one


def _saved(folder: Path, what: str, values: Sequence[Any]) -> list[Any]:
    """Arrays of the files of a test's folder."""
    import onnx

    count = len(list(folder.glob(f"{what}_*.pb")))
    found = []
    for number, value in zip(range(count), values, strict=False):
        path = folder / f"{what}_{number}.pb"
        if value.type.WhichOneof("value") == "tensor_type":
            found.append(onnx.numpy_helper.to_array(onnx.load_tensor(path)))
        else:
            sequence = onnx.SequenceProto()
            sequence.ParseFromString(path.read_bytes())
            found.append(onnx.numpy_helper.to_list(sequence))
    return found
