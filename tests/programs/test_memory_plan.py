"""What a call takes beside arguments and constants, as it is planned and as it must be."""

import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.mlir.from_file import import_program

T = "tensor<64x64xf32>"
BYTES = 64 * 64 * 4


def product(name, a):
    return f"""
  %{name} = linalg.matmul ins(%{a}, %w : {T}, {T}) outs(%z : {T}) -> {T}"""


def text(body, results=T, more=""):
    return f"""
func.func @f(%a: {T}, %w: {T}{more}) -> {results} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {T}
  %z = linalg.fill ins(%zero : f32) outs(%e : {T}) -> {T}
  {body}
}}
"""


@pytest.mark.costly
@pytest.mark.parametrize(
    ("body", "counts"),
    [
        # Planned, at once, without reuse: by products one after another.
        (product("b", "a") + f"return %b : {T}", (1, 1, 1)),
        (product("b", "a") + product("c", "b") + f"return %c : {T}", (2, 2, 2)),
        (
            "".join(product(b, a) for a, b in ("ab", "bc", "cd", "dg")) + f"return %g : {T}",
            (3, 2, 4),
        ),
    ],
)
def test_storage_is_shared(body, counts, tmp_path):
    imported = import_program(text(body))
    memory = ext.explain_program(imported).memory["f"]
    assert (memory.planned, memory.least, memory.unshared) == tuple(BYTES * one for one in counts)
    program = ext.build_program(imported, folder=tmp_path / "p")
    assert program.resources["memory"]["f"] == memory.to_json()


def test_an_updated_argument_takes_nothing():
    body = f"""
  %n = linalg.generic {{
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  }} ins(%a : {T}) outs(%e : {T}) {{
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %x : f32
    linalg.yield %s : f32
  }} -> {T}
  return %n : {T}"""
    given = text(body)
    assert ext.explain_program(import_program(given)).memory["f"].planned == BYTES
    updated = given.replace(f"%a: {T},", f"%a: {T} {{iree.abi.output = 0 : index}},")
    assert ext.explain_program(import_program(updated)).memory["f"].planned == 0


def test_it_is_said_of_known_extents_alone():
    source = """
func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {
  %b = arith.addf %a, %a : tensor<?xf32>
  return %b : tensor<?xf32>
}
"""
    explanation = ext.explain_program(import_program(source))
    assert not explanation.memory
    assert "memory" not in str(explanation)
    said = str(ext.explain_program(import_program(source.replace("?", "1000"))))
    assert "memory of f: 0.004 MB for a call; 0.004 at once, 0.004 without reuse" in said
