"""Ops of imported programs over each element type, beside the reference of the registry's op."""

import numpy as np
import pytest
from typed_texts import TEXTS

import tvm_iree_ext as ext
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.mlir.reading.reader import read
from tvm_iree_ext.registry import ENTRIES, element_types
from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program

TYPES = [*dtypes.ELEMENTS, "index"]
# Ops that treat elements differently, of whose types some are tested each time.
OFTEN = [
    *(f"iree_linalg_ext.{one}" for one in ("scan", "sort", "topk", "arg_compare", "scatter")),
    *(f"iree_linalg_ext.{one}" for one in ("gather", "pack", "map_load")),
    "iree_vector_ext.transfer_gather",
]
QUICK = [
    ("iree_linalg_ext.scan", "float8_e4m3fn"),
    ("iree_linalg_ext.scatter", "complex64"),
    ("iree_linalg_ext.sort", "complex128"),
    ("iree_linalg_ext.topk", "complex128"),
    ("iree_linalg_ext.sort", "int4"),
    ("iree_linalg_ext.sort", "uint8"),
    ("iree_linalg_ext.scan", "uint4"),
    ("iree_linalg_ext.scatter", "index"),
    ("iree_linalg_ext.map_load", "complex128"),
    ("iree_linalg_ext.attention", "float8_e4m3fn"),
    ("iree_linalg_ext.custom_op", "complex128"),
    ("iree_vector_ext.transfer_gather", "bool"),
    ("iree_vector_ext.to_simt", "bool"),
]
SIMULATED = [
    ("iree_linalg_ext.attention", "float8_e4m3fn", "cuda:sm_80"),
    ("iree_linalg_ext.online_attention", "float8_e5m2fnuz", "rocm:gfx942"),
    ("iree_linalg_ext.custom_op", "int4", "rocm:gfx942"),
    ("iree_linalg_ext.map_load", "float8_e4m3fn", "cuda:sm_80"),
    ("iree_linalg_ext.scatter", "complex128", "rocm:gfx942"),
]


def as_passed(array):
    """8-bit floats as their patterns, integers of 4 bits as those of 8."""
    if str(array.dtype) in dtypes.FLOATS8:
        return array.view(np.uint8)
    name = str(array.dtype)
    return array.astype(dtypes.number_dtype(name)) if name in dtypes.INTEGERS4 else array


def case(op, dtype):
    """What a program is called with, what is to come, and how far it may be off."""
    kinds = element_types(op)
    made, operands = kinds.case(dtypes.canonical(dtype), np.random.default_rng(3))
    want = ENTRIES[op].reference(made, operands)
    arguments = [as_passed(operands[one.name]) for one in made.signature.arguments]
    return arguments, want, ENTRIES[op].tolerance(made, operands, want)


def check(op, dtype, target=None):
    text = TEXTS[op]("index" if dtype == "index" else dtypes.mlir_name(dtype))
    if dtype in element_types(op).refused_in_text:
        with pytest.raises(ext.errors.ExtError):
            ext.mlir.import_program(text)
        return
    arguments, want, allowed = case(op, dtype)
    program = ext.mlir.import_program(text)
    if target is None:
        got = ext.build_program(program)(*arguments)
    else:
        got = tuple(simulate_program(program, target, arguments).check().results)
    for (name, expected), came in zip(
        want.items(), got if isinstance(got, tuple) else (got,), strict=True
    ):
        is_word = str(expected.dtype) in dtypes.FLOATS8
        came = came.view(expected.dtype) if is_word else came
        assert not first_difference(name, came, expected, allowed[name]), (op, dtype)


def test_there_is_a_text_of_each_op_of_the_dialects():
    assert set(TEXTS) == {op for op in ENTRIES if not op.startswith("tvm_iree_ext.")}


@pytest.mark.parametrize(
    ("op", "dtype"), QUICK, ids=[f"{o.rpartition('.')[2]}-{t}" for o, t in QUICK]
)
def test_a_type_runs_in_an_imported_program(op, dtype):
    check(op, dtype)


@pytest.mark.parametrize(
    ("op", "dtype", "target"),
    SIMULATED,
    ids=[f"{o.rpartition('.')[2]}-{t}" for o, t, _ in SIMULATED],
)
def test_a_type_of_an_imported_program_runs_on_simulated_gpus(op, dtype, target):
    check(op, dtype, target)


@pytest.mark.costly
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", OFTEN)
def test_every_type_runs_in_an_imported_program(op, dtype):
    check(op, dtype)


@pytest.mark.costly
@pytest.mark.long
@pytest.mark.parametrize("op", sorted(set(TEXTS) - set(OFTEN)))
def test_every_type_of_other_ops_runs_in_an_imported_program(op):
    for dtype in TYPES:
        check(op, dtype)


@pytest.mark.costly
@pytest.mark.long
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
@pytest.mark.parametrize("op", TEXTS)
def test_every_type_of_imported_programs_runs_on_simulated_gpus(op, target):
    for dtype in TYPES:
        check(op, dtype, target)


def test_integers_of_4_bits_are_numbers_without_a_sign_where_extui_says_so():
    sort, scatter = (TEXTS[f"iree_linalg_ext.{op}"]("i4") for op in ("sort", "scatter"))
    seen = " ".join(f"%{one}_wide = arith.extui %{one} : i4 to i32\n" for one in "pq")
    sort = sort.replace(
        "%s = arith.cmpi slt, %p, %q : i4", f"{seen} %s = arith.cmpi slt, %p_wide, %q_wide : i32"
    )
    scatter = scatter.replace(
        "%s = arith.addi %p, %q : i4",
        f"{seen} %n = arith.maxsi %p_wide, %q_wide : i32\n %s = arith.trunci %n : i32 to i4",
    ).replace("@f(", "@g(")
    program = ext.mlir.import_program(sort + scatter)
    rng = np.random.default_rng(0)
    x, updates, original = (
        rng.integers(-8, 8, shape).astype("int8") for shape in ((3, 5), (3, 5), (4, 5))
    )
    indices = np.array([2, 0, 3], "int32")

    def signed(numbers):
        return (numbers ^ 8) - 8

    merged = original.copy()
    merged[indices] = signed(np.maximum(updates & 15, original[indices] & 15))
    run = ext.build_program(program)
    np.testing.assert_array_equal(run["f"](x), signed(np.sort(x & 15, axis=1)))
    np.testing.assert_array_equal(run["g"](updates, indices, original), merged)


def test_words_of_128_bits_have_extents_that_a_call_tells():
    text = TEXTS["iree_linalg_ext.scan"]("complex<f64>")
    text = text.replace("tensor<3x5x", "tensor<?x?x").replace("tensor<3x", "tensor<?x")
    text = text.replace(
        "tensor.empty()",
        "tensor.empty(%m, %n)",
    ).replace(
        "%e =",
        "%c0 = arith.constant 0 : index\n %c1 = arith.constant 1 : index\n"
        " %m = tensor.dim %x, %c0 : tensor<?x?xcomplex<f64>>\n"
        " %n = tensor.dim %x, %c1 : tensor<?x?xcomplex<f64>>\n %e =",
    )
    program = ext.build_program(ext.mlir.import_program(text))
    assert "complex128" in [one.dtype for one in program.manifest.kernels]
    rng = np.random.default_rng(2)
    for shape in ((3, 5), (1, 2), (4, 17)):
        x = rng.integers(-9, 9, (*shape, 2)).astype("float64").view("complex128")[..., 0]
        sums, last = program(x, np.zeros(shape[0], "complex128"))
        np.testing.assert_array_equal(sums, np.cumsum(x, axis=1))
        np.testing.assert_array_equal(last, sums[:, -1])


def test_vectors_of_complex_elements_are_refused_by_mlir_itself():
    for op, text in TEXTS.items():
        if op.startswith("iree_vector_ext."):
            with pytest.raises(ext.errors.MlirError, match="VectorElementTypeInterface"):
                read(text("complex<f32>"))
