"""IREE's bindings in, :mod:`.form` out; runs in the reader's own process only."""

import re
from typing import Any

import ml_dtypes
import numpy as np
from iree.compiler import ir

from tvm_iree_ext.mlir.reading import form, native
from tvm_iree_ext.mlir.reading.type_names import COMPLEX, FLOATS

_MOST_DEPTH = 64  # regions in regions; arrays in arrays; of an affine expression
_MOST_ELEMENTS = 1 << 48  # of a tensor; none is as large, and sizes in bytes stay within 64 bits
_MOST_TEXT = 400  # characters of what has no Python value

_INTEGER = re.compile(r"(?:s?i|(u)i)(1|2|4|8|16|32|64)")
_NARROW = ("int2", "int4", "uint2", "uint4")  # one in a byte, whose upper bits mean nothing
_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')

_ARRAYS = (
    ir.DenseBoolArrayAttr,
    ir.DenseI8ArrayAttr,
    ir.DenseI16ArrayAttr,
    ir.DenseI32ArrayAttr,
    ir.DenseI64ArrayAttr,
    ir.DenseF32ArrayAttr,
    ir.DenseF64ArrayAttr,
)
_BINARY = {
    ir.AffineAddExpr: "add",
    ir.AffineMulExpr: "mul",
    ir.AffineModExpr: "mod",
    ir.AffineFloorDivExpr: "floordiv",
    ir.AffineCeilDivExpr: "ceildiv",
}


class TooDeep(Exception):
    """What is nested deeper than any program is."""


def numpy_dtype(name: str) -> np.dtype:
    """NumPy's dtype for one of the form's, ``ml_dtypes``' where that has it."""
    return np.dtype("int64" if name == "index" else getattr(ml_dtypes, name, name))


def place_of(location: Any, source: str) -> form.Location:
    """A location of the bindings; ``source`` is what they call the text."""
    found = _PLACE.search(str(location))
    if found is None:
        return form.Location(0, 0)
    file = found[1] if found[1] != source else ""
    return form.Location(int(found[2]), int(found[3]), file)


class Translator:
    """Translates one module; types and attributes, which MLIR shares, once each."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._types: dict[Any, form.Type] = {}
        self._attributes: dict[Any, form.Attribute] = {}
        self._values: dict[Any, form.ParsedValue] = {}
        self._state: Any = None

    def module(self, module: Any) -> form.Module:
        """The whole of it."""
        operation = module.operation
        self._state = ir.AsmState(operation)
        try:
            (block,) = self._region(operation.regions[0], 1)
            name = self._attributes_of(operation).get("sym_name", "")
            return form.Module(name, block.operations)
        finally:
            self._state = None

    def _operation(self, operation: Any, depth: int) -> form.ParsedOperation:
        operation = operation.operation
        attributes = self._attributes_of(operation)
        segments = attributes.pop("operandSegmentSizes", ())
        results = [self._value(result) for result in operation.results]
        regions = [self._region(region, depth + 1) for region in operation.regions]
        return form.ParsedOperation(
            operation.name,
            # An operand may stand before what yields it, where blocks branch.
            [self._value(operand) for operand in operation.operands],
            results,
            attributes,
            regions,
            place_of(operation.location, self._source),
            tuple(int(n) for n in segments),
        )

    def _region(self, region: Any, depth: int) -> list[form.ParsedBlock]:
        if depth > _MOST_DEPTH:
            raise TooDeep(f"regions are nested more than {_MOST_DEPTH} deep")
        return [
            form.ParsedBlock(
                [self._value(argument) for argument in block.arguments],
                [self._operation(operation, depth) for operation in block.operations],
            )
            for block in region.blocks
        ]

    def _value(self, value: Any) -> form.ParsedValue:
        found = self._values.get(value)
        if found is None:
            name = value.get_name(self._state)
            found = self._values[value] = form.ParsedValue(self.type(value.type), name)
        return found

    def _attributes_of(self, operation: Any) -> dict[str, form.Attribute]:
        found = {}
        for name in operation.attributes:
            try:
                attribute = operation.attributes[name]
            except TypeError:  # the bindings have no class for it
                elements = native.uncast_elements(operation, name)
                found[name] = self._elements(elements) if elements else form.Opaque(name)
            else:
                found[name] = self.attribute(attribute)
        return found

    def type(self, type_: Any) -> form.Type:
        """One of the bindings' types."""
        found = self._types.get(type_)
        if found is None:
            found = self._types[type_] = self._new_type(type_)
        return found

    def _new_type(self, type_: Any) -> form.Type:
        if isinstance(type_, ir.FunctionType):
            inputs, results = (tuple(map(self.type, t)) for t in (type_.inputs, type_.results))
            return form.FunctionType(inputs, results)
        vector = isinstance(type_, ir.VectorType)
        encoding = getattr(type_, "encoding", None)
        packed = encoding is not None and str(encoding) == form.PACKED
        if (vector and not type_.scalable) or (
            isinstance(type_, ir.RankedTensorType) and (encoding is None or packed)
        ):
            shape = tuple(
                None if type_.is_dynamic_dim(axis) else type_.get_dim_size(axis)
                for axis in range(type_.rank)
            )
            static = [extent for extent in shape if extent is not None]
            dtype = _dtype_of(type_.element_type)
            # Only bits are packed: elements of other types lie as they do without.
            packed = packed and dtype == "bool"
            if dtype and int(np.prod(static, dtype=object)) <= _MOST_ELEMENTS:
                return form.ParsedTensorType(shape, dtype, vector, packed)
        elif isinstance(type_, ir.MemRefType):
            return _memref(type_)
        elif dtype := _dtype_of(type_):
            return form.ParsedScalarType(dtype)
        return form.OtherType(_cut(type_))

    def attribute(self, attribute: Any, depth: int = 0) -> form.Attribute:
        """One of the bindings' attributes."""
        if depth > _MOST_DEPTH:
            raise TooDeep(f"attributes are nested more than {_MOST_DEPTH} deep")
        try:
            return self._attributes[attribute]
        except KeyError:
            found = self._attributes[attribute] = self._new_attribute(attribute, depth)
            return found

    def _new_attribute(self, attribute: Any, depth: int) -> form.Attribute:
        match attribute:
            case ir.UnitAttr():
                return None
            case ir.BoolAttr() | ir.StringAttr() | ir.FlatSymbolRefAttr():
                return attribute.value
            case ir.SymbolRefAttr():
                return "::".join(attribute.value)
            case ir.IntegerAttr() | ir.FloatAttr():
                return self._number(attribute)
            case ir.TypeAttr():
                return self.type(attribute.value)
            case ir.AffineMapAttr():
                return _affine_map(attribute.value) or form.Opaque(_cut(attribute))
            case ir.DenseElementsAttr():
                return self._elements(native.elements(attribute))
        try:
            if isinstance(attribute, ir.ArrayAttr):
                return tuple(self.attribute(part, depth + 1) for part in attribute)
            if isinstance(attribute, ir.DictAttr):
                return {part.name: self.attribute(part.attr, depth + 1) for part in attribute}
        except TypeError:  # the bindings have no class for a part
            return form.Opaque(_cut(attribute))
        if isinstance(attribute, _ARRAYS):
            return tuple(attribute)
        if str(attribute).startswith("dense_resource<"):
            return self._resource(attribute)
        return form.Opaque(_cut(attribute))

    def _number(self, number: Any) -> form.Attribute:
        type_ = self.type(number.type)
        if not isinstance(type_, form.ParsedScalarType):
            return form.Opaque(_cut(number))
        if type_.dtype == "index":
            return int(number.value)
        dtype = numpy_dtype(type_.dtype)
        if isinstance(number, ir.IntegerAttr):
            return dtype.type(number.value)
        return np.frombuffer(native.bits(number, dtype.itemsize), dtype)[0]

    def _elements(self, elements: Any) -> form.Attribute:
        type_ = self.type(elements.type)
        if not isinstance(type_, form.ParsedTensorType):
            return form.Opaque(_cut(elements.type), "constants of this type cannot be read")
        dtype = numpy_dtype(type_.dtype)
        shape = () if elements.is_splat else _static(type_)
        length = dtype.itemsize * int(np.prod(shape, dtype=object))
        # A copy: what is sent outlives the context, and the bytes are the context's.
        data = np.frombuffer(elements.bytes(length) if length else b"", np.uint8).copy()
        return form.Dense(type_, _as(data, type_.dtype).reshape(shape))

    def _resource(self, attribute: Any) -> form.Attribute:
        """The elements of ``dense_resource<name>``, where the text has them."""
        type_ = self.type(attribute.type)
        text = _cut(attribute)
        if not isinstance(type_, form.ParsedTensorType):
            return form.Opaque(text, "constants of this type cannot be read")
        blob = _blob(attribute)
        if blob is None:
            return form.Opaque(text, "the file has no data of that name")
        shape = _static(type_)
        count = int(np.prod(shape, dtype=object))
        expected = count * numpy_dtype(type_.dtype).itemsize
        if len(blob) != expected:
            return form.Opaque(text, f"its data is {len(blob)} bytes, expected {expected}")
        return form.Dense(type_, _as(blob, type_.dtype).reshape(shape))


_UNKNOWN_STRIDE = -(1 << 63)
# Where buffers of callers lie; others are a lane's, a workgroup's, or of another machine.
_SPACES = re.compile(
    r"0|0 : i\d+|#hal\.descriptor_type<\w+>|#amdgpu\.address_space<fat_raw_buffer>"
)


def _memref(type_: Any) -> form.ParsedMemrefType:
    shape = tuple(
        None if type_.is_dynamic_dim(axis) else type_.get_dim_size(axis)
        for axis in range(type_.rank)
    )
    dtype = _dtype_of(type_.element_type)
    strides: tuple[int | None, ...] | None = None
    offset: int | None = 0
    why = ""
    try:
        found, first = type_.get_strides_and_offset()
    except RuntimeError:
        why = "its layout is no offset and strides"
    else:
        strides = tuple(None if one == _UNKNOWN_STRIDE else one for one in found)
        offset = None if first == _UNKNOWN_STRIDE else first
        if type_.layout == ir.MemRefType.get([*type_.shape], type_.element_type).layout:
            strides = None
    if not dtype:
        why = f"its elements are {_cut(type_.element_type)}"
    elif type_.memory_space is not None and not _SPACES.fullmatch(str(type_.memory_space)):
        why = f"its memory space is {_cut(type_.memory_space)}, which is no caller's"
    elif int(np.prod([one for one in shape if one is not None], dtype=object)) > _MOST_ELEMENTS:
        why = "no machine has so much memory"
    return form.ParsedMemrefType(shape, dtype, strides, offset, why, _cut(type_) if why else "")


def _dtype_of(type_: Any) -> str:
    """The form's name of an element type; empty when it has none."""
    if isinstance(type_, ir.ComplexType):
        return COMPLEX.get(_dtype_of(type_.element_type), "")
    if isinstance(type_, ir.IndexType):
        return "index"
    text = str(type_)
    if found := _INTEGER.fullmatch(text):
        return "bool" if found[2] == "1" else f"{'u' if found[1] else ''}int{found[2]}"
    return FLOATS.get(text, "")


def _static(type_: form.ParsedTensorType) -> tuple[int, ...]:
    """The shape of a constant, which MLIR has checked to be static."""
    return tuple(extent for extent in type_.shape if extent is not None)


def _as(data: np.ndarray, dtype: str) -> np.ndarray:
    """Bytes as elements."""
    if dtype in _NARROW:
        bits = int(dtype[-1])
        data = data & ((1 << bits) - 1)
        if dtype[0] == "i":
            half = 1 << (bits - 1)
            return ((data ^ half).astype(np.int8) - half).astype(numpy_dtype(dtype))
        return data.astype(numpy_dtype(dtype))
    if dtype == "bool":
        return data != 0
    return data.view(numpy_dtype(dtype))


def _blob(attribute: Any) -> np.ndarray | None:
    """The bytes of a resource: MLIR prints them, in hexadecimal, behind an op that names it."""
    holder = ir.Module.create()
    holder.operation.attributes["data"] = attribute
    text = holder.operation.get_asm()
    start = text.rfind(': "0x')
    if start < 0 or text.rfind("{-#") < 0:
        return None
    data = np.frombuffer(bytes.fromhex(text[start + 5 : text.index('"', start + 5)]), np.uint8)
    return data[4:]  # four bytes of alignment stand before the data


def _affine_map(affine_map: Any) -> form.ParsedAffineMap | None:
    try:
        results = tuple(_affine(result, 0) for result in affine_map.results)
    except TooDeep:
        return None
    return form.ParsedAffineMap(affine_map.n_dims, affine_map.n_symbols, results)


def _affine(expression: Any, depth: int) -> form.ParsedAffineExpr:
    if depth > _MOST_DEPTH:
        raise TooDeep
    match expression:
        case ir.AffineDimExpr():
            return form.ParsedAffineExpr("dim", expression.position)
        case ir.AffineSymbolExpr():
            return form.ParsedAffineExpr("symbol", expression.position)
        case ir.AffineConstantExpr():
            return form.ParsedAffineExpr("constant", expression.value)
    parts = tuple(_affine(part, depth + 1) for part in (expression.lhs, expression.rhs))
    return form.ParsedAffineExpr(_BINARY[type(expression)], parts=parts)


def _cut(thing: Any) -> str:
    text = str(thing)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
