"""What the front ends compute otherwise than ONNX defines it, by ONNX's own node tests.

Each line is an operator and what about a node of it is wrong; such a node counts as one that the
front end does not take.  Tried with IREE 3.13.0, TVM 0.27.0 and onnx 1.23.2: a node is here where
the results of its test in ``onnx.backend.test`` differed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tvm_iree_ext.base.dtypes import FLOATS8
from tvm_iree_ext.frontends.onnx.onnx_integers import INTEGERS
from tvm_iree_ext.frontends.onnx.onnx_model import OnnxModel
from tvm_iree_ext.frontends.onnx.onnx_resize import is_slow
from tvm_iree_ext.frontends.onnx.onnx_rewriting import Attributes, NotRewritten, Values

Fault = Callable[[Any, Values], bool]


def faulty(model: OnnxModel, faults: Mapping[str, Fault]) -> dict[str, str]:
    """Operators of a model that a front end computes wrongly: each with a node's name."""
    values = Values(model)
    return {
        node.op_type: node.name
        for node in model.nodes()
        if node.op_type in faults and faults[node.op_type](node, values)
    }


def _always(_node: Any, _values: Values) -> bool:
    return True


def _has(attribute: str, *values: Any) -> Fault:
    """Whether a node has an attribute of one of these values; of any where none is named."""

    def has(node: Any, _values: Values) -> bool:
        said = Attributes(node).all()
        return attribute in said and (not values or said[attribute] in values)

    return has


def _takes(place: int) -> Fault:
    """Whether a node has an input that may be left out."""
    return lambda node, _: len(node.input) > place and bool(node.input[place])


def _gives(place: int) -> Fault:
    """Whether a node gives a result that may be left out."""
    return lambda node, _: len(node.output) > place and bool(node.output[place])


def _any(*faults: Fault) -> Fault:
    return lambda node, values: any(fault(node, values) for fault in faults)


def _saturates(node: Any, values: Values) -> bool:
    """Whether it gives the largest number of an 8-bit float for what lies beyond it."""
    import onnx

    try:
        kind = onnx.helper.tensor_dtype_to_np_dtype(values.kind(node.output[0]))
    except NotRewritten:
        return True
    return str(kind) in FLOATS8 and Attributes(node)("saturate", 1) != 0


_OF_INTEGERS = {op: condition for op, (condition, _) in INTEGERS.items()}

OF_IREE: Mapping[str, Fault] = {
    "AveragePool": _has("ceil_mode", 1),  # the divisor counts what lies beyond the padding
    **_OF_INTEGERS,
    "Cast": _any(_saturates, _OF_INTEGERS["Cast"]),  # NaN or infinite beyond the largest
    "CastLike": _always,  # as Cast; its definition says the type
    "Det": _always,  # NaN where a pivot is 0
    "DynamicQuantizeLinear": _always,
    "Gelu": _has("approximate", b"tanh"),  # a constant of few digits
    "GridSample": _always,  # the padding, and which of two is nearest
    "LSTM": _takes(7),  # peepholes are left out
    "LpNormalization": _always,  # NaN for a vector of zeros
    "Pad": _has("mode", b"wrap"),  # compiles without end
    "QLinearMatMul": _always,  # of more than two axes
    "QuantizeLinear": _saturates,
    "Resize": is_slow,
    "SoftmaxCrossEntropyLoss": _takes(2),  # weights: infinite
    "SpaceToDepth": _has("mode", b"CRD"),  # as if it were DCR
    "SplitToSequence": _always,  # one part
    "Unique": _always,  # refused, and of bfloat16 without a name
}

OF_TVM: Mapping[str, Fault] = {
    "BatchNormalization": _has("training_mode", 1),
    "ConvTranspose": _has("output_shape"),
    "Dropout": _any(_takes(2), _gives(1)),  # in training nothing is dropped; the mask is of floats
    "IsInf": _any(_has("detect_negative", 0), _has("detect_positive", 0)),
    "LayerNormalization": _gives(1),  # the mean and the deviation are scalars
    "Mod": lambda node, values: not _has("fmod", 1)(node, values),  # of floats: NaN
    "ReduceMax": _always,  # of nothing: the largest finite number
    "ReduceMin": _always,
    "Resize": _has("mode", b"linear", b"cubic"),  # where it makes an image smaller
    "SequenceInsert": _takes(2),  # the place
    "SpaceToDepth": _has("mode", b"CRD"),
    "SplitToSequence": _always,  # each part is a result
    "Tile": _always,  # NaN
}
