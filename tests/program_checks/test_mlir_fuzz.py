"""Mutated programs: each is imported or refused, in time; ``fuzz texts`` tries thousands."""

import subprocess
import sys
import time
from collections import Counter

import pytest

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.mlir import import_program
from tvm_iree_ext.program_checks import mlir_fuzz

SEED, COUNT = 1, 120


@pytest.fixture(scope="module")
def texts(root):
    folders = (root / "tests" / "data" / name for name in ("ir", "mlir"))
    return [path.read_text() for folder in folders for path in sorted(folder.glob("*.mlir"))]


def test_no_mutation_crashes_or_hangs(texts):
    findings = list(mlir_fuzz.fuzz(texts, range(COUNT), SEED))
    assert [finding for finding in findings if finding.kind == "wrong"] == []
    counts = Counter(finding.kind for finding in findings)
    assert counts["imported"] > COUNT / 10
    assert counts["refused"] > COUNT / 10


def test_a_case_is_the_same_everywhere():
    code = (
        "from tvm_iree_ext.program_checks.mlir_mutations import case;"
        "print([hash(case(3, i, ['a %b addf 12\\n' * 9])) == 0 for i in range(3)], case(3, 7, ['a"
        " 1\\nb 2']))"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(2)
    }
    assert len(runs) == 1


def test_what_is_wrong_is_found(monkeypatch):
    def fail(text):
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(mlir_fuzz, "import_program", fail)
    finding = mlir_fuzz._outcome(mlir_fuzz._FuzzTask(3, "module {}", build=False))
    assert finding == mlir_fuzz.FuzzFinding(3, "wrong", "IndexError: tuple index out of range")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no public function"),
        ("module { module {} }", "no public function"),
        ("func.func private @f()", "no public function"),
        ("func.func @f() { func.call @f() : () -> () return }", "calls itself"),
        ("util.global private @g : tensor<4xf32>", "no public function"),
    ],
)
def test_odd_modules_are_refused(text, said):
    with pytest.raises(MlirError, match=said):
        import_program(text)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "%0 = tensor.expand_shape %x [[4294967296, 1], [2]] output_shape [2, 2, 3] :"
            " tensor<4x3xf32> into tensor<2x2x3xf32>",
            "a reassociation that is not of the axes 0 to 2 in order",
        ),
        (
            "%0 = tensor.pad %x low[-9223372036854775808, 0] high[0, 0] {\n^bb0(%i: index, %j:"
            " index):\n%c = arith.constant 0.0 : f32\ntensor.yield %c : f32\n} : tensor<4x3xf32> to"
            " tensor<?x3xf32>",
            "the number -9223372036854775808",
        ),
        (
            f"%0 = arith.constant dense<1.0> : tensor<{2**40}x{2**40}xf32>",
            "constants of this type cannot be read",
        ),
    ],
)
def test_what_iree_does_not_check_is_checked(body, said):
    with pytest.raises(MlirError, match=said):
        import_program(f"func.func @f(%x: tensor<4x3xf32>) {{\n{body}\nreturn }}")


def test_a_name_that_cannot_be_printed():
    with pytest.raises(MlirError, match=r"a function called 'a.x00b'"):
        import_program('func.func @"a\\00b"(%x: tensor<4xf32>) { return }')


def test_functions_that_call_one_another_ten_times_end_soon():
    calls = "\n".join(
        f"func.func private @f{n}() {{" + f"func.call @f{n - 1}() : () -> ()\n" * 10 + "return }"
        for n in range(1, 9)
    )
    start = time.process_time()
    with pytest.raises(MlirError, match="operations, those of calls included"):
        import_program(
            f"func.func private @f0() {{ return }}\n{calls}\n"
            "func.func @main() { func.call @f8() : () -> () return }"
        )
    assert time.process_time() - start < 30
