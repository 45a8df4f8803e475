"""What IREE's Python bindings do not give, by the C functions that they stand on.

The bindings refuse constants of complex and small elements, and have no bytes of resources.  Only
the reader's own process calls these: a mistake of a pointer ends that process, not the user's.
"""

import ctypes
from pathlib import Path
from typing import Any

from iree.compiler import ir
from iree.compiler._mlir_libs import _mlir

_NAMES = ("libIREECompiler.so", "libIREECompiler.dylib", "IREECompiler.dll")


class _Pointer(ctypes.Structure):
    """MlirAttribute, MlirType, MlirOperation: each is one pointer."""

    _fields_ = (("at", ctypes.c_void_p),)


class _StringRef(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


def _library() -> ctypes.CDLL:
    folder = Path(_mlir.__file__).parent
    return ctypes.CDLL(str(next(folder / name for name in _NAMES if (folder / name).exists())))


_LIBRARY = _library()


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_LIBRARY, name)
    function.restype, function.argtypes = result, arguments
    return function


_attribute_by_name = _function("mlirOperationGetAttributeByName", _Pointer, _Pointer, _StringRef)
_type_of = _function("mlirAttributeGetType", _Pointer, _Pointer)
_is_dense = _function("mlirAttributeIsADenseElements", ctypes.c_bool, _Pointer)
_is_splat = _function("mlirDenseElementsAttrIsSplat", ctypes.c_bool, _Pointer)
_raw_data = _function("mlirDenseElementsAttrGetRawData", ctypes.c_void_p, _Pointer)
_splat_of = _function("mlirDenseElementsAttrSplatGet", _Pointer, _Pointer, _Pointer)

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)

_TYPE_CAPSULE = b"iree.compiler.ir.Type._CAPIPtr"


def _pointer(thing: Any) -> _Pointer:
    capsule = thing._CAPIPtr
    return _Pointer(_capsule_pointer(capsule, _capsule_name(capsule)))


class Elements:
    """A ``dense<...>`` attribute: its type, and the bytes of its elements where they lie."""

    def __init__(self, attribute: _Pointer) -> None:
        self._attribute = attribute
        type_ = ir.Type._CAPICreate(_new_capsule(_type_of(attribute).at, _TYPE_CAPSULE, None))
        self.type = type_.maybe_downcast()
        self.is_splat = bool(_is_splat(attribute))

    def bytes(self, length: int) -> Any:
        """The first ``length`` bytes, as a ctypes array that is valid while the context lives."""
        return (ctypes.c_uint8 * length).from_address(_raw_data(self._attribute) or 0)


def elements(attribute: ir.Attribute) -> Elements:
    """Those of a dense attribute that the bindings do give."""
    return Elements(_pointer(attribute))


def uncast_elements(operation: Any, name: str) -> Elements | None:
    """Those of an operation's attribute that the bindings cannot give; None if it is not dense."""
    encoded = name.encode()
    found = _attribute_by_name(_pointer(operation), _StringRef(encoded, len(encoded)))
    return Elements(found) if _is_dense(found) else None


def bits(number: ir.Attribute, length: int) -> bytes:
    """The bytes of a number, exact also for NaN, whose payload a Python float does not keep."""
    shaped = _pointer(ir.RankedTensorType.get([1], number.type))
    return bytes(Elements(_splat_of(shaped, _pointer(number))).bytes(length))
