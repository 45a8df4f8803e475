"""Element types of IR, and what is said of operations that are not supported."""

import pytest

from tvm_iree_ext.mlir.base.elements import element
from tvm_iree_ext.mlir.base.hints import nearest
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.table import supported


@pytest.mark.parametrize(
    ("name", "storage", "held"),
    [
        ("float32", ("float32",), "float32"),
        ("bfloat16", ("bfloat16",), "float32"),
        ("float8_e4m3fn", ("uint8",), "float32"),
        ("int4", ("int8",), "int8"),
        ("index", ("int64",), "int64"),
        ("bool", ("bool",), "bool"),
        ("complex64", ("float32", "float32"), "float32"),
    ],
)
def test_narrow_elements_are_held_wider_than_they_are_stored(name, storage, held):
    kind = element(name)
    assert (kind.storage, kind.held) == (storage, held)


def test_an_element_type_that_there_is_not_is_unsupported():
    with pytest.raises(Unsupported, match="float6"):
        element("float6")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cf.br", "; instead: a function of one block, with scf.while or scf.if"),
        (
            "stablehlo.foo",
            "; instead: what IREE's input pipeline makes of it (--input stablehlo)",
        ),
        ("stream.resource.load", "; nothing of the dialect stream is"),
        ("linalg.matmull", "; the nearest that is: linalg.matmul"),
        ("quantum.leap", "; nothing of the dialect quantum is"),
        ("scf.reduce.return", ""),
    ],
)
def test_a_hint_names_what_is_supported_instead(name, hint):
    assert nearest(name, ["linalg.matmul", "scf.for"]) == hint


@pytest.mark.parametrize("dialect", ["bufferization", "cf", "flow", "memref", "vector"])
def test_no_hint_says_that_nothing_is_of_what_is_supported_in_part(dialect):
    assert any(name.startswith(f"{dialect}.") for name in supported())
    for name in ("prefetch", "atomic_rmw", "quantum_leap"):
        assert "nothing of" not in nearest(f"{dialect}.{name}", supported())
