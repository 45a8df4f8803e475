"""A model of ONNX through a front end: IREE's importer, or TVM's."""

from __future__ import annotations

import contextlib
import io
import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.dtypes import FLOATS8, INTEGERS4
from tvm_iree_ext.base.errors import BuildError, MlirError
from tvm_iree_ext.frontends.base.written_modules import import_written
from tvm_iree_ext.frontends.onnx import onnx_faults
from tvm_iree_ext.frontends.onnx.onnx_model import ENTRY, OnnxModel
from tvm_iree_ext.mlir.importing.boundary import Boundary, Given
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.programs.program_sources import program_of

# What the two raise for nodes that they do not take, each at its own whim.
_RAISED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
_MOST_LINES = 3  # of what IREE's compiler says
_ILLEGAL = re.compile(r'loc\("([^"]*)"[^\n]*?failed to legalize operation[^\n]*?"onnx\.(\w+)"')
_PLACE = re.compile(r'loc\("([^"]*)"')
_CONVERTING = re.compile(r"Error converting operator (\w+)")
_NARROW = (*FLOATS8, *INTEGERS4, "uint2", "int2", "float4_e2m1fn", "float8_e8m0fnu")
_ABSENT = re.compile(r"operators are not supported for frontend ONNX: (.*)")


class FrontEndRefusal(Exception):
    """A front end does not take a model; ``operators`` are those that it names."""

    def __init__(self, reason: str, operators: frozenset[str]) -> None:
        super().__init__(reason)
        self.operators = operators


def through_iree(model: OnnxModel) -> Imported:
    """Import by IREE's importer, torch-mlir's, and its lowering to linalg.

    Raises:
        FrontEndRefusal: for what either does not take, or is known to compute wrongly.
        MlirError: where IREE is not installed.
    """
    _refuse_faulty(model, onnx_faults.OF_IREE)
    try:
        from iree.compiler import ir
        from iree.compiler.dialects import util
        from iree.compiler.extras import onnx_importer
    except ImportError as error:
        raise MlirError(
            f"IREE's compiler is not installed: {error}; pip install 'tvm-iree-ext[onnx]'"
        ) from None
    given = model.inputs
    for one in given:
        if _dtype(one.type) == "int4":  # conversions take it for unsigned
            raise FrontEndRefusal(f"{one.name} is of int4, whose sign it loses", frozenset())
    proto = type(model.proto)()
    proto.CopyFrom(model.proto)
    graph = proto.graph
    graph.value_info.extend(one for one in graph.input if one.name in model.weights)
    del graph.input[:]
    graph.input.extend(given)
    context = ir.Context()
    try:
        info = onnx_importer.ModelInfo(proto)
        module = info.create_module(context=context).operation
        importer = onnx_importer.NodeImporter.define_function(info.main_graph, module)
        for name, array in model.weights.items():
            kind = importer._cc.type_proto_to_type(info.main_graph.value_info_map[name].type)
            tensor = form.ParsedTensorType(array.shape, str(array.dtype))
            importer._nv_map[name] = _weight(ir, util, importer, name, str(tensor), kind)
        importer.import_all()
        text = module.get_asm(enable_debug_info=True)
    except (*_RAISED, onnx_importer.OnnxImportError, ir.MLIRError) as error:
        raise FrontEndRefusal(f"{type(error).__name__}: {error}", frozenset()) from error

    def write(place: Path) -> Path:
        path = place / "module.mlir"
        path.write_text(text)
        return path

    boundary = Boundary(
        tuple(Given(_type(one)) for one in given),
        tuple(_dtype(one.type) for one in graph.output),
    )
    try:
        return import_written(write, "onnx", {ENTRY: boundary}, model.weights)
    except MlirError as error:
        said = _ILLEGAL.search(str(error))
        if said is None:
            first = " ".join(str(error).splitlines()[:_MOST_LINES])
            places = set(_PLACE.findall(str(error)))
            named = {node.op_type for node in model.nodes() if node.name in places}
            raise FrontEndRefusal(first, frozenset(named)) from error
        node, operator = said.groups()
        reason = f"{operator} of node {node!r} is not lowered"
        raise FrontEndRefusal(reason, frozenset([operator])) from error


def through_tvm(model: OnnxModel) -> Imported:
    """Import by TVM's front end, as a module of Relax.

    Raises:
        FrontEndRefusal: for what TVM or our import of Relax does not take, or TVM is known to
            compute wrongly.
    """
    from tvm.relax.frontend.onnx import from_onnx

    _refuse_faulty(model, onnx_faults.OF_TVM)
    graph = model.proto.graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        if (kind := _dtype(value.type)) in _NARROW:
            raise FrontEndRefusal(f"{value.name} is of {kind}, whose bits it takes", frozenset())
    said = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(said):
            warnings.simplefilter("ignore")
            module = from_onnx(model.whole())
        return program_of(module)
    except BuildError as error:
        raise FrontEndRefusal(str(error), frozenset()) from error
    except _RAISED as error:
        absent = _ABSENT.search(str(error))
        failed = absent[1].split(", ") if absent else _CONVERTING.findall(said.getvalue())
        what = " ".join(str(error).split())
        reason = what if absent else f"{', '.join(failed) or 'the graph'}: {what}"
        raise FrontEndRefusal(reason, frozenset(failed)) from error


def _refuse_faulty(model: OnnxModel, faults: Mapping[str, onnx_faults.Fault]) -> None:
    wrong = onnx_faults.faulty(model, faults)
    if wrong:
        said = ", ".join(f"{operator} of node {node!r}" for operator, node in wrong.items())
        raise FrontEndRefusal(f"{said} would be computed wrongly", frozenset(wrong))


def _weight(ir: Any, util: Any, importer: Any, name: str, tensor: str, kind: Any) -> Any:
    """The value of an array beside the program, in the graph that an importer of IREE's writes."""
    with importer._c, ir.Location.name(name):
        builtin = ir.Type.parse(tensor)
        symbol = "weight_" + re.sub(r"\W", "_", name) + f"_{len(importer._nv_map)}"
        with ir.InsertionPoint.at_block_begin(importer._m.regions[0].blocks[0]):
            initial = ir.Attribute.parse(f"#flow.parameter.named<{json.dumps(name)}> : {tensor}")
            util.GlobalOp(
                ir.StringAttr.get(symbol),
                ir.TypeAttr.get(builtin),
                sym_visibility=ir.StringAttr.get("private"),
                initial_value=initial,
            )
        with ir.InsertionPoint(importer._b):
            loaded = util.GlobalLoadOp(builtin, symbol).result
            return ir.Operation.create(
                "torch_c.from_builtin_tensor", results=[kind], operands=[loaded]
            ).result


def _type(value: Any) -> form.ParsedTensorType:
    extents = value.type.tensor_type.shape.dim
    shape = tuple(one.dim_value if one.HasField("dim_value") else None for one in extents)
    return form.ParsedTensorType(shape, _dtype(value.type))


def _dtype(kind: Any) -> str:
    import onnx

    element = kind.tensor_type.elem_type
    return str(onnx.helper.tensor_dtype_to_np_dtype(element)) if element else ""
