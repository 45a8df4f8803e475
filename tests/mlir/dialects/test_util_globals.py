"""Mutable globals are state that a program keeps between calls."""

import threading

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError, MlirError
from tvm_iree_ext.mlir.from_file import import_program

KIND = "tensor<4xi32>"
COUNTED = f"""
util.global private mutable @seen = dense<7> : {KIND}
util.global private mutable @other : {KIND}
func.func @add(%a: {KIND}) -> {KIND} {{
  %s = util.global.load @seen : {KIND}
  %t = arith.addi %s, %a : {KIND}
  util.global.store %t, @seen : {KIND}
  %u = util.global.load @seen : {KIND}
  %v = arith.addi %u, %s : {KIND}
  return %v : {KIND}
}}
func.func @get() -> {KIND} {{
  %s = util.global.load @seen : {KIND}
  return %s : {KIND}
}}
func.func @set(%a: {KIND}) {{
  util.global.store %a, @seen : {KIND}
  util.global.store %a, @other : {KIND}
  return
}}
func.func @swap() {{
  %s = util.global.load @seen : {KIND}
  %o = util.global.load @other : {KIND}
  util.global.store %s, @other : {KIND}
  util.global.store %o, @seen : {KIND}
  return
}}
"""


def built(text, tmp_path):
    return ext.build_program(import_program(text), folder=tmp_path / "p")


def test_functions_share_a_state(tmp_path):
    program = built(COUNTED, tmp_path)
    a = np.arange(4, dtype="int32")
    assert program["get"]().tolist() == [7] * 4
    assert program["add"](a).tolist() == (2 * 7 + a).tolist()
    assert program["get"]().tolist() == (7 + a).tolist()
    program["set"](a)
    program.state["other"][:] = 9
    program["swap"]()
    assert program["get"]().tolist() == [9] * 4
    assert program.state["other"].tolist() == a.tolist()
    program.reset()
    assert program["get"]().tolist() == [7] * 4
    assert not program.state["other"].any()


def test_threads_take_turns(tmp_path):
    program = built(COUNTED, tmp_path)
    one = np.ones(4, "int32")

    def add():
        for _ in range(200):
            program["add"](one)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert program.state["seen"].tolist() == [807] * 4


def test_what_is_returned_is_not_the_state(tmp_path):
    program = built(COUNTED, tmp_path)
    got = program["get"]()
    got[:] = 0
    assert program["get"]().tolist() == [7] * 4


def test_numbers(tmp_path):
    text = """
util.global private mutable @count = 3 : i32
util.global private mutable @scale = 0.5 : bf16
util.func public @next() -> (i32, bf16) {
  %0 = util.global.load @count : i32
  %c2 = arith.constant 2 : i32
  %1 = arith.addi %0, %c2 : i32
  util.global.store %1, @count : i32
  %2 = util.global.load @count : i32
  %s = util.global.load @scale : bf16
  %t = arith.addf %s, %s : bf16
  util.global.store %t, @scale : bf16
  util.return %2, %s : i32, bf16
}
"""
    program = built(text, tmp_path)
    assert [tuple(map(float, program())) for _ in range(3)] == [(5, 0.5), (7, 1), (9, 2)]
    assert int(program.state["count"]) == 9


LOOP = f"""
util.global private mutable @seen = dense<7> : {KIND}
func.func @f(%a: {KIND}) -> {KIND} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%x = %a) -> ({KIND}) {{
    %s = util.global.load @seen : {KIND}
    %y = arith.addi %x, %s : {KIND}
    scf.yield %y : {KIND}
  }}
  return %r : {KIND}
}}
"""
INITIALIZED = """
util.global private mutable @seen : tensor<4xi32>
util.initializer {
  %c = arith.constant dense<3> : tensor<4xi32>
  util.global.store %c, @seen : tensor<4xi32>
  util.return
}
func.func @f() -> tensor<4xi32> {
  %s = util.global.load @seen : tensor<4xi32>
  return %s : tensor<4xi32>
}
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LOOP, "uses @seen, which is mutable, inside of a loop or a branch"),
        (INITIALIZED, "uses @seen, which an initializer computes"),
        (
            """util.global private mutable @n : tensor<?xf32>
            func.func @f() -> tensor<?xf32> {
              %n = util.global.load @n : tensor<?xf32>
              return %n : tensor<?xf32>
            }""",
            "a state of the type",
        ),
        (
            """util.global private mutable @n : tensor<2xcomplex<f32>>
            func.func @f() -> tensor<2xcomplex<f32>> {
              %n = util.global.load @n : tensor<2xcomplex<f32>>
              return %n : tensor<2xcomplex<f32>>
            }""",
            "uses @n, a state of complex numbers",
        ),
    ],
)
def test_says_what_is_no_state(text, said):
    with pytest.raises(MlirError, match=said):
        import_program(text)


def test_a_call_whose_out_cannot_fit_changes_no_state(tmp_path):
    text = f"""
util.global private mutable @seen = dense<0> : {KIND}
func.func @f(%n: tensor<i64>, %x: {KIND}) -> (tensor<?x3xi32>, {KIND}) {{
  %s = util.global.load @seen : {KIND}
  %t = arith.addi %s, %x : {KIND}
  util.global.store %t, @seen : {KIND}
  %e = tensor.extract %n[] : tensor<i64>
  %i = arith.index_cast %e : i64 to index
  %one = arith.constant 1 : i32
  %o = tensor.empty(%i) : tensor<?x3xi32>
  %f = linalg.fill ins(%one : i32) outs(%o : tensor<?x3xi32>) -> tensor<?x3xi32>
  return %f, %t : tensor<?x3xi32>, {KIND}
}}
"""
    program = built(text, tmp_path)
    n, x = np.array(5), np.arange(4, dtype="int32")
    good, seen = np.zeros((5, 3), "int32"), np.zeros(4, "int32")
    read_only = good.copy()
    read_only.flags.writeable = False
    for out, message in (
        ((good.astype("int64"), seen), "result0 is int64; expected int32"),
        ((np.zeros((5, 2), "int32"), seen), r"result0 has shape \[5, 2\]; expected \[\?, 3\]"),
        ((np.zeros(5, "int32"), seen), r"result0 has shape \[5\]; expected \[\?, 3\]"),
        ((read_only, seen), "result0 is read-only"),
        ((good, x), "result1 shares memory with"),
        (good, "out has 1 arrays; expected 2"),
    ):
        with pytest.raises(CallError, match=message):
            program(n, x, out=out)
    assert not program.state["seen"].any()
    with pytest.raises(CallError, match=r"result0 has shape \[4, 3\]; expected \[5, 3\]"):
        program(n, x, out=(np.zeros((4, 3), "int32"), seen))
    filled = program(n, x, out=(good, seen))
    assert filled[0] is good
    assert good.all()
    assert seen.tolist() == (2 * x).tolist()
