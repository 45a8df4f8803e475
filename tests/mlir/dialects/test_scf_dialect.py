"""Loops and branches between operations: ``tests/data/mlir/control.mlir``, and what is refused."""

import subprocess
import sys

import numpy as np
import pytest

from tvm_iree_ext.base.errors import CallError, MlirError


@pytest.fixture(scope="module")
def control(built, root):
    return built((root / "tests" / "data" / "mlir" / "control.mlir").read_text())


def row(*numbers):
    return np.array(numbers, "f4")


@pytest.mark.costly
@pytest.mark.parametrize("count", [0, 1, 5, -3])
def test_a_loop_whose_end_data_decide(control, count):
    x = row(1, 2, -3, 0.5)
    (result,) = control(x, np.array(count, "i4"), function="powers")
    np.testing.assert_array_equal(result, x ** (max(count, 0) + 1))
    assert not np.shares_memory(result, x)


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_what_is_carried_on_as_it_came(control, count):
    a, b = row(1, 2, 3, 4), row(5, 6, 7, 8)
    results = control(a, b, np.int64(count), function="swapped")
    steps = [*range(0, count, 2)]
    first, second = (a, b) if len(steps) % 2 == 0 else (b, a)
    for came, want in zip(results, (first, second, a, [0, *steps][-1]), strict=True):
        np.testing.assert_array_equal(came, want)
    for came in results:  # each result has memory of its own
        others = [other for other in (*results, a, b) if other is not came]
        assert not any(np.shares_memory(came, other) for other in others)


def test_a_loop_that_ends_when_data_say_so(control):
    last, steps = control(np.array(27, "i8"), function="collatz")
    assert (last, steps) == (1, 111)
    x = row(1, 2, 3, 2)
    halved, total = control(x, function="halved")
    np.testing.assert_array_equal(halved, x / 16)
    assert total == 1


def test_branches(control):
    a, b = row(1, 2, 3, 4), row(5, 6, 7, 9)
    np.testing.assert_array_equal(control(np.bool_(True), a, b, function="chosen")[0], a)
    np.testing.assert_array_equal(control(np.bool_(False), a, b, function="chosen")[0], b - a)
    for key, want in ((2, a + a), (5, a * a), (0, a), (-1, a)):
        np.testing.assert_array_equal(control(np.int64(key), a, function="switched")[0], want)


def test_a_loop_in_a_loop(control):
    x = row(1, 1, 2)
    (result,) = control(x, function="rows")
    np.testing.assert_array_equal(result, x + x + row(4, 5, 6) + x)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_what_steps_insert(control, count):
    rng = np.random.default_rng(0)
    x, a = rng.integers(-9, 9, (2, 4, 3)).astype("f4")
    given = a.copy()
    inserted, added, checked, total = control(x, a, np.int64(count), function="recorded")
    sums = np.cumsum(x[:count], axis=0)
    want = np.vstack([sums, a[count:]])
    np.testing.assert_array_equal(inserted, want)
    np.testing.assert_array_equal(added, np.vstack([a[:count] + sums, a[count:]]))
    np.testing.assert_array_equal(checked, want)
    np.testing.assert_array_equal(total, sums[-1] if count else np.zeros(3))
    np.testing.assert_array_equal(a, given)
    script = control.program.module.script()
    assert script.count("call_tir_inplace") == 1  # of the three


def test_extents_that_grow_and_extents_that_stay(control):
    x, y = row(1, 2, 3), row(4, 5, 6)
    for count in (0, 1, 3):
        grown, kept = control(x, y, np.int64(count), function="doubled")
        np.testing.assert_array_equal(grown, np.tile(x, 2**count))
        np.testing.assert_array_equal(kept, x + count * y + x)
    with pytest.raises(CallError, match="doubled: "):
        control(x, row(1, 2), np.int64(1), function="doubled")


def test_complex_numbers_are_carried(control):
    x = np.array([1j, 1 + 1j, 2, -0.5j], "c8")
    np.testing.assert_allclose(control(x, function="complex")[0], x**4, rtol=1e-6)


def test_branches_in_a_region(run):
    text = """
    #m = affine_map<(d0) -> (d0)>
    func.func @f(%x: tensor<5xf32>, %y: tensor<5xi32>, %t: tensor<3xf32>) -> tensor<5xf32> {
      %e = tensor.empty() : tensor<5xf32>
      %zero = arith.constant 0 : i32
      %two = arith.constant 2 : i32
      %0 = linalg.generic {indexing_maps = [#m, #m, #m], iterator_types = ["parallel"]}
          ins(%x, %y : tensor<5xf32>, tensor<5xi32>) outs(%e : tensor<5xf32>) {
      ^bb0(%a: f32, %k: i32, %o: f32):
        %positive = arith.cmpi sgt, %k, %zero : i32
        %1 = scf.if %positive -> (f32) {
          %many = arith.cmpi sgt, %k, %two : i32
          %2 = scf.if %many -> (f32) {
            %3 = arith.addf %a, %a : f32
            scf.yield %3 : f32
          } else {
            %at = arith.index_cast %k : i32 to index
            %3 = tensor.extract %t[%at] : tensor<3xf32>
            scf.yield %3 : f32
          }
          scf.yield %2 : f32
        } else {
          %2 = arith.negf %a : f32
          scf.yield %2 : f32
        }
        linalg.yield %1 : f32
      } -> tensor<5xf32>
      return %0 : tensor<5xf32>
    }
    """
    x, y = row(1, 2, 3, 4, 5), np.array([-7, 0, 1, 2, 9], "i4")
    (result,) = run(text, x, y, row(10, 20, 30))
    np.testing.assert_array_equal(result, row(-1, -2, 20, 30, 10))


def test_branches_between_blocks_are_refused(imported):
    text = """
    func.func @f(%a: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
      cf.cond_br %c, ^a, ^b
    ^a:
      return %a : tensor<4xf32>
    ^b:
      %0 = math.exp %a : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    """
    with pytest.raises(MlirError, match=r"branches between blocks; scf\.if, scf\.for and scf"):
        imported(text)


def test_a_program_of_loops_is_deployed(control, tmp_path):
    folder = control.built.export(tmp_path / "artifact")
    code = (
        "import sys, numpy as np\n"
        "from tvm_iree_ext.runtime.program import load\n"
        f"program = load({str(folder)!r})\n"
        "print(program['collatz'](np.array(27, 'i8'))[1], 'tvm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["111", "False"]


LOOP = """
func.func @f(%x: tensor<4xf32>, %step: index) -> tensor<4xf32> {{
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %0 = scf.for {kind} %i = %c0 to %c4 step %step iter_args(%a = %x) -> (tensor<4xf32>) {{
    {inside}
    scf.yield %a : tensor<4xf32>
  }}
  return %0 : tensor<4xf32>
}}
"""


def test_a_step_that_goes_nowhere_is_refused(built):
    program = built(LOOP.format(kind="", inside=""))
    with pytest.raises(CallError, match=r"step of a loop is .*; expected 1 or more"):
        program(row(1, 2, 3, 4), np.int64(0))


@pytest.mark.parametrize(
    ("kind", "inside", "said"),
    [
        ("unsigned", "", "5:8: scf.for: compares its bounds as unsigned numbers"),
        (
            "",
            "check.expect_eq(%x, %a) : tensor<4xf32>",
            "5:8: scf.for: with a check inside",
        ),
        (
            "",
            "%1 = tosa.exp %a : (tensor<4xf32>) -> tensor<4xf32>",
            "6:10: tosa.exp: is not supported; .*",
        ),
    ],
)
def test_what_is_not_supported_in_a_loop_is_named(imported, kind, inside, said):
    with pytest.raises(MlirError, match=f"^{said}$"):
        imported(LOOP.format(kind=kind, inside=inside))


def nested(name, depth, innermost):
    """A function of loops in loops; ``innermost`` computes %y of %x."""
    lines = [f"func.func @{name}(%x: tensor<4xf32>) -> tensor<4xf32> {{"]
    lines += ["%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index"]
    for level in range(depth):
        lines.append(
            f"%r{level} = scf.for %i{level} = %c0 to %c1 step %c1"
            f" iter_args(%a{level} = %x) -> (tensor<4xf32>) {{"
        )
    lines.append(innermost)
    for level in reversed(range(depth)):
        lines.append(f"scf.yield %{'y' if level == depth - 1 else f'r{level + 1}'} : tensor<4xf32>")
        lines.append("}")
    return "\n".join([*lines, "return %r0 : tensor<4xf32>", "}"])


def test_loops_nested_too_deep_are_refused(imported):
    text = nested("f", 40, "%y = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>")
    with pytest.raises(MlirError, match=r"scf\.for: regions nested too deep"):
        imported(text + nested("g", 40, "%y = arith.addf %x, %x : tensor<4xf32>"))
