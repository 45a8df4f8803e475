"""ONNX Runtime as a peer: a graph in ONNX's text form.

A case gives the nodes of a graph whose inputs are the op's by name.  Operands and results stand in
memory that is bound beforehand; what is timed is the run.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.bench.base.bench_case import Call, Library, Peer, Skipped, Values
from tvm_iree_ext.bench.peers.thread_setup import Opening
from tvm_iree_ext.ops.base.op import Op

_HEAD = '<ir_version: 10, opset_import: ["" : 23]>'
_TYPES = {"float32": "float"}

opening = Opening()
ORT = Library("ONNX Runtime", "onnxruntime", opening.limit)


def onnx_type(shape: Any, dtype: str = "float32") -> str:
    """A type: ``float[4,8]``."""
    return f"{_TYPES.get(dtype, dtype)}[{','.join(map(str, shape))}]"


def ort_peer(op: Op, nodes: str, results: str = "") -> Peer:
    """ONNX Runtime running nodes.

    Args:
        op: its arguments, of static shapes, are the inputs.
        nodes: one a line, as ``sums = CumSum (input, axis)``.
        results: the outputs as ``TYPE NAME, ...``; by default the op's.
    """
    return Peer(ORT, lambda values: _call(graph(op, nodes, results), values))


def graph(op: Op, nodes: str, results: str = "") -> str:
    """The model as text."""
    signature = op.signature
    inputs, outputs = (
        ", ".join(f"{onnx_type(one.shape, one.dtype)} {one.name}" for one in operands)
        for operands in (signature.arguments, signature.results)
    )
    return f"{_HEAD}\nmain ({inputs}) => ({results or outputs}) {{\n{nodes}\n}}"


def axes(name: str, *numbers: int) -> str:
    """A node: the constant ``name`` of some axes, a shape or a count."""
    return f"{name} = Constant <value_ints: ints = [{', '.join(map(str, numbers))}]> ()"


def _call(text: str, values: Values) -> Call:
    try:
        from onnx import parser
    except ImportError as error:
        raise Skipped("needs onnx") from error
    model = parser.parse_model(text).SerializeToString()
    return opening.call(lambda threads: _opened(model, values, threads))


def _opened(model: bytes, values: Values, threads: int) -> Call:
    import onnxruntime

    session = _session(model, threads)
    binding = session.io_binding()
    for one in session.get_inputs():
        value = onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(values[one.name], order="C"))
        binding.bind_ortvalue_input(one.name, value)
    places = [np.zeros(one.shape, _numpy_type(one.type)) for one in session.get_outputs()]
    for one, place in zip(session.get_outputs(), places, strict=True):
        binding.bind_output(one.name, "cpu", 0, place.dtype, place.shape, place.ctypes.data)
    results = tuple(places)

    def call() -> Any:
        session.run_with_iobinding(binding)
        return results if len(results) > 1 else results[0]

    return call


def _session(model: bytes, threads: int) -> Any:
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as states

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    except states.NotImplemented as error:
        raise Skipped(f"does not run this: {str(error).splitlines()[0]}") from error


def model_call(model: bytes, arrays: Sequence[np.ndarray]) -> Call:
    """The call of a model with arrays, in the order of its inputs; it allocates its results."""
    return opening.call(lambda threads: _opened_model(model, arrays, threads))


def _opened_model(model: bytes, arrays: Sequence[np.ndarray], threads: int) -> Call:
    import onnxruntime

    session = _session(model, threads)
    binding = session.io_binding()
    given = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays]
    for one, value in zip(session.get_inputs(), given, strict=True):
        binding.bind_ortvalue_input(one.name, value)
    for one in session.get_outputs():
        binding.bind_output(one.name)

    def call() -> Any:
        session.run_with_iobinding(binding)
        return binding.get_outputs()

    return call


def _numpy_type(text: str) -> np.dtype:
    """Of ``tensor(float)``."""
    name = text[len("tensor(") : -1]
    return np.dtype({"float": "float32"}.get(name, name))
