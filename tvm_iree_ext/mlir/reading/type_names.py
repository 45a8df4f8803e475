"""MLIR's names of element types, and the names that the form has for them."""

FLOATS = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "f4E2M1FN": "float4_e2m1fn",
    "f6E2M3FN": "float6_e2m3fn",
    "f6E3M2FN": "float6_e3m2fn",
    "f8E3M4": "float8_e3m4",
    "f8E4M3": "float8_e4m3",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E5M2": "float8_e5m2",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
}
COMPLEX = {"float32": "complex64", "float64": "complex128"}

_SPELLED = {own: name for name, own in FLOATS.items()} | {"bool": "i1"}


def spelled(dtype: str) -> str:
    """A name of the form as MLIR spells it: ``f32`` for ``float32``, ``ui8`` for ``uint8``."""
    for part, own in COMPLEX.items():
        if dtype == own:
            return f"complex<{_SPELLED[part]}>"
    return dtype if dtype == "index" else _SPELLED.get(dtype) or dtype.replace("int", "i")
