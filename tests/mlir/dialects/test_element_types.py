"""Ops of imported programs over each element type, beside the reference of the registry's op."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.registry import ENTRIES, element_types

# MLIR's integers have no sign in these dialects.
TYPES = [one for one in dtypes.ELEMENTS if not one.startswith("uint")]


def added(t):
    if t == "i1":
        return f"%s = arith.ori %p, %q : {t}"
    name = "complex.add" if "complex" in t else "arith.addf" if t[0] in "fb" else "arith.addi"
    return f"%s = {name} %p, %q : {t}"


def compared(t, sign):
    if "complex" in t:
        part = t[len("complex<") : -1]
        return (
            f"%u = complex.re %p : {t}\n %w = complex.re %q : {t}\n"
            f" %s = arith.cmpf o{sign}, %u, %w : {part}"
        )
    if t[0] in "fb":
        return f"%s = arith.cmpf o{sign}, %p, %q : {t}"
    return f"%s = arith.cmpi {'u' if t == 'i1' else 's'}{sign}, %p, %q : {t}"


def region(t, body, yields):
    return f"{{\n ^bb0(%p: {t}, %q: {t}):\n {body}\n iree_linalg_ext.yield %s : {yields}\n }}"


def one_of(t):
    if "complex" in t:
        part = t[len("complex<") : -1]
        return f"complex.constant [1.0 : {part}, 0.0 : {part}] : {t}"
    return f"arith.constant {'true' if t == 'i1' else '1.0' if t[0] in 'fb' else '1'}" + (
        "" if t == "i1" else f" : {t}"
    )


def scan(t):
    a, x = f"tensor<3x{t}>", f"tensor<3x5x{t}>"
    return f"""func.func @f(%x: {x}, %a: {a}) -> ({x}, {a}) {{
 %e = tensor.empty() : {x}
 %r:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : {x}) outs(%e, %a : {x}, {a})
 {region(t, added(t), t)} -> {x}, {a}
 return %r#0, %r#1 : {x}, {a}
}}"""


def sort(t):
    x = f"tensor<3x5x{t}>"
    return f"""func.func @f(%x: {x}) -> {x} {{
 %r = iree_linalg_ext.sort dimension(1) outs(%x : {x}) {region(t, compared(t, "lt"), "i1")} -> {x}
 return %r : {x}
}}"""


def topk(t):
    x, v, i = f"tensor<3x9x{t}>", f"tensor<3x2x{t}>", "tensor<3x2xi32>"
    return f"""func.func @f(%x: {x}, %v: {v}, %i: {i}) -> ({v}, {i}) {{
 %r:2 = iree_linalg_ext.topk dimension(1) ins(%x : {x}) outs(%v, %i : {v}, {i})
 {region(t, compared(t, "gt"), "i1")} -> {v}, {i}
 return %r#0, %r#1 : {v}, {i}
}}"""


def arg_compare(t):
    x, v, i = f"tensor<3x5x{t}>", f"tensor<3x{t}>", "tensor<3xi32>"
    return f"""func.func @f(%x: {x}, %v: {v}, %i: {i}) -> ({v}, {i}) {{
 %r:2 = iree_linalg_ext.arg_compare dimension(1) ins(%x : {x}) outs(%v, %i : {v}, {i})
 {region(t, compared(t, "gt"), "i1")} -> {v}, {i}
 return %r#0, %r#1 : {v}, {i}
}}"""


def scatter(t):
    u, i, x = f"tensor<3x5x{t}>", "tensor<3xi32>", f"tensor<4x5x{t}>"
    return f"""func.func @f(%u: {u}, %i: {i}, %x: {x}) -> {x} {{
 %r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
   ins(%u, %i : {u}, {i}) outs(%x : {x}) {region(t, added(t), t)} -> {x}
 return %r : {x}
}}"""


def gather(t):
    x, i, o = f"tensor<4x5x{t}>", "tensor<3xi32>", f"tensor<3x5x{t}>"
    return f"""func.func @f(%x: {x}, %i: {i}) -> {o} {{
 %e = tensor.empty() : {o}
 %r = iree_linalg_ext.gather dimension_map = [0] ins(%x, %i : {x}, {i}) outs(%e : {o}) -> {o}
 return %r : {o}
}}"""


def pack(t):
    x, o = f"tensor<5x3x{t}>", f"tensor<2x3x4x{t}>"
    return f"""func.func @f(%x: {x}) -> {o} {{
 %c = {one_of(t)}
 %e = tensor.empty() : {o}
 %r = linalg.pack %x padding_value(%c : {t}) inner_dims_pos = [0] inner_tiles = [4]
   into %e : {x} -> {o}
 return %r : {o}
}}"""


def map_load(t):
    x, o = f"tensor<3x5x{t}>", f"tensor<5x4x{t}>"
    return f"""func.func @f(%x: {x}) -> {o} {{
 %c = {one_of(t)}
 %e = tensor.empty() : {o}
 %r = iree_linalg_ext.map_load %x into %e {{
 ^bb0(%i: index, %j: index):
   iree_linalg_ext.yield %j, %i, %c : index, index, {t}
 }} : {x} into {o} -> {o}
 return %r : {o}
}}"""


def transfer_gather(t):
    x, o = f"tensor<4x5x{t}>", f"vector<3x5x{t}>"
    zero = {"i1": "false"}.get(t, "0.0" if t[0] in "fb" else "0")
    return f"""func.func @f(%x: {x}, %i: vector<3xindex>) -> {o} {{
 %c0 = arith.constant 0 : index
 %pad = arith.constant {zero}{"" if t == "i1" else f" : {t}"}
 %r = iree_vector_ext.transfer_gather %x[%c0, %c0] [%i : vector<3xindex>], %pad {{
   indexing_maps = [affine_map<(d0, d1)[s0] -> (s0, d1)>, affine_map<(d0, d1)[s0] -> (d0)>]
 }} : {x}, {o}
 return %r : {o}
}}"""


TEXTS = {
    "iree_linalg_ext.scan": scan,
    "iree_linalg_ext.sort": sort,
    "iree_linalg_ext.topk": topk,
    "iree_linalg_ext.arg_compare": arg_compare,
    "iree_linalg_ext.scatter": scatter,
    "iree_linalg_ext.gather": gather,
    "iree_linalg_ext.pack": pack,
    "iree_linalg_ext.map_load": map_load,
    "iree_vector_ext.transfer_gather": transfer_gather,
}
QUICK = [
    ("iree_linalg_ext.scan", "float8_e4m3fn"),
    ("iree_linalg_ext.scatter", "complex64"),
    ("iree_linalg_ext.sort", "int4"),
    ("iree_linalg_ext.map_load", "complex128"),
    ("iree_vector_ext.transfer_gather", "bool"),
]


def as_passed(array):
    """8-bit floats as their patterns, integers of 4 bits as those of 8."""
    if str(array.dtype) in dtypes.FLOATS8:
        return array.view(np.uint8)
    return array.astype(np.int8) if str(array.dtype) in dtypes.INTEGERS4 else array


def check(op, dtype):
    kinds = element_types(op)
    text = TEXTS[op](dtypes.mlir_name(dtype))
    if dtype in kinds.in_text:
        with pytest.raises(ext.errors.ExtError):
            ext.mlir.import_program(text)
        return
    made, operands = kinds.case(dtype, np.random.default_rng(3))
    arguments = [as_passed(operands[one.name]) for one in made.signature.arguments]
    got = ext.build_program(ext.mlir.import_program(text))(*arguments)
    want = ENTRIES[op].reference(made, operands)
    allowed = ENTRIES[op].tolerance(made, operands, want)
    for (name, expected), came in zip(
        want.items(), got if isinstance(got, tuple) else (got,), strict=True
    ):
        is_word = str(expected.dtype) in dtypes.FLOATS8
        came = came.view(expected.dtype) if is_word else came
        assert not first_difference(name, came, expected, allowed[name]), (op, dtype)


@pytest.mark.parametrize(
    ("op", "dtype"), QUICK, ids=[f"{o.rpartition('.')[2]}-{t}" for o, t in QUICK]
)
def test_a_type_runs_in_an_imported_program(op, dtype):
    check(op, dtype)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", TEXTS)
def test_every_type_runs_in_an_imported_program(op, dtype):
    check(op, dtype)
