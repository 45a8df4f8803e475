"""Text in, form objects out; whatever the text does to the parser is an error here."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from places import DATA

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.mlir.reading import form, reader
from tvm_iree_ext.mlir.reading.reader import read

PROGRAMS = sorted((DATA / "ir").glob("*.mlir"))


def body(text, arguments=""):
    """The operations of a function with this body, without its return."""
    (function,) = read(f"func.func @f({arguments}) {{\n{text}\nreturn\n}}").operations
    return function.block().operations[:-1]


def constant(text):
    (operation,) = body(f"%0 = arith.constant {text}")
    return operation.attributes["value"]


@pytest.mark.costly
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_reads_every_program(path):
    module = read(path)
    names = [operation.attributes.get("sym_name") for operation in module.operations]
    assert "main" in names
    text = path.read_text().splitlines()
    for top in module.operations:
        for operation in (o for region in top.regions for o in region[0].operations):
            assert operation.name in text[operation.location.line - 1]
        for operation in top.walk():
            assert not [a for a in operation.attributes.values() if getattr(a, "why", "")]


def test_a_function_of_linalg():
    module = read("""
module @m {
  func.func @scale(%x: tensor<4x?xf32>, %out: tensor<4x?xf32>) -> tensor<4x?xf32> {
    %two = arith.constant 2.0 : f32
    %0 = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]
    } ins(%x : tensor<4x?xf32>) outs(%out : tensor<4x?xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.mulf %a, %two : f32
      linalg.yield %c : f32
    } -> tensor<4x?xf32>
    return %0 : tensor<4x?xf32>
  }
}
""")
    assert module.name == "m"
    (function,) = module.operations
    tensor = form.ParsedTensorType((4, None), "float32")
    assert function.name == "func.func"
    assert function.attributes["sym_name"] == "scale"
    assert function.attributes["function_type"] == form.FunctionType((tensor, tensor), (tensor,))
    assert function.location == form.Location(3, 3)
    x, out = function.block().arguments
    assert (x.type, x.name, out.name) == (tensor, "%arg0", "%arg1")
    two, generic, end = function.block().operations
    assert two.attributes["value"] == np.float32(2)
    assert type(two.attributes["value"]) is np.float32
    d0, d1 = (form.ParsedAffineExpr("dim", position) for position in range(2))
    identity = form.ParsedAffineMap(2, 0, (d0, d1))
    assert generic.attributes["indexing_maps"] == (identity, identity)
    assert generic.groups() == [[x], [out]]
    assert generic.location == form.Location(5, 10)
    multiply, end_of_region = generic.block().operations
    assert multiply.operands == [generic.block().arguments[0], two.results[0]]
    assert end_of_region.operands == multiply.results
    assert end.operands == generic.results
    assert [o.name for o in function.walk()] == [
        *("func.func", "arith.constant", "linalg.generic", "arith.mulf", "linalg.yield"),
        "func.return",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", True),
        ("-3 : i8", np.int8(-3)),
        ("-3 : i64", np.int64(-3)),
        ("7 : index", 7),
        ("-3 : i4", ml_dtypes.int4(-3)),
        ("1.5 : f16", np.float16(1.5)),
        ("1.5 : bf16", ml_dtypes.bfloat16(1.5)),
        ("0.1 : f64", np.float64(0.1)),
        ("-0.0 : f32", np.float32(-0.0)),
        ("0x7F800000 : f32", np.float32(np.inf)),
        ("1.5 : f8E4M3FN", ml_dtypes.float8_e4m3fn(1.5)),
    ],
)
def test_numbers_keep_their_types(text, expected):
    number = constant(text)
    assert type(number) is type(expected)
    assert np.asarray(number).tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize(
    ("text", "bits", "dtype"),
    [
        ("0x7FA00001 : f32", 0x7FA00001, np.uint32),
        ("0xFFC12345 : f32", 0xFFC12345, np.uint32),
        ("0x7FF4000000000001 : f64", 0x7FF4000000000001, np.uint64),
        ("0x7F81 : bf16", 0x7F81, np.uint16),
    ],
)
def test_the_payload_of_a_nan_is_kept(text, bits, dtype):
    assert np.asarray(constant(text)).view(dtype) == bits


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dense<[true, false, true]> : tensor<3xi1>", np.array([True, False, True])),
        ("dense<[1, 2, -3]> : tensor<3xi4>", np.array([1, 2, -3], ml_dtypes.int4)),
        ("dense<[1, 2, -1]> : tensor<3xi2>", np.array([1, 2 - 4, -1], ml_dtypes.int2)),
        ("dense<[[1, -2]]> : tensor<1x2xi64>", np.array([[1, -2]], np.int64)),
        ("dense<[1, -2]> : tensor<2xindex>", np.array([1, -2], np.int64)),
        ("dense<[1.0, 2.5]> : tensor<2xf16>", np.array([1, 2.5], np.float16)),
        ("dense<[1.0, 2.5]> : tensor<2xbf16>", np.array([1, 2.5], ml_dtypes.bfloat16)),
        ("dense<[1.0, 2.5]> : tensor<2xf8E5M2>", np.array([1, 2.5], ml_dtypes.float8_e5m2)),
        (
            "dense<[(1.0, 2.0), (3.0, -4.0)]> : tensor<2xcomplex<f32>>",
            np.array([1 + 2j, 3 - 4j], np.complex64),
        ),
        ("dense<[(1.0, 2.0), (3.0, -4.0)]> : tensor<2xcomplex<f64>>", np.array([1 + 2j, 3 - 4j])),
        ('dense<"0x0000803F00000040"> : tensor<2xf32>', np.array([1, 2], np.float32)),
        ("dense<> : tensor<0x3xi32>", np.zeros((0, 3), np.int32)),
        ("dense<[[1.0, 2.0]]> : vector<1x2xf32>", np.array([[1, 2]], np.float32)),
    ],
)
def test_arrays_by_their_bytes(text, expected):
    dense = constant(text)
    assert dense.type.shape == expected.shape
    assert dense.values.dtype == expected.dtype
    assert dense.values.tobytes() == expected.tobytes()
    assert not dense.values.flags.writeable


def test_a_splat_stays_one_element():
    dense = constant("dense<2.5> : tensor<100000x100000xf32>")
    assert dense.is_splat
    assert dense.type == form.ParsedTensorType((100000, 100000), "float32")
    assert dense.values.shape == ()
    assert dense.values == np.float32(2.5)
    complexes = constant("dense<(1.0, -2.0)> : tensor<7xcomplex<f32>>")
    assert complexes.is_splat
    assert complexes.values == np.complex64(1 - 2j)


def resource(data, type_, alignment=64):
    blob = alignment.to_bytes(4, "little").hex() + bytes(data).hex()
    (operation,) = read(f"""
util.global private @w = dense_resource<w> : {type_}
{{-#
  dialect_resources: {{ builtin: {{ v: "0x04000000FF", w: "0x{blob}" }} }}
#-}}
""").operations
    return operation.attributes["initial_value"]


def test_resources():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    dense = resource(values.tobytes(), "tensor<2x3xf32>")
    np.testing.assert_array_equal(dense.values, values)
    assert resource(b"\1\0\1", "tensor<3xi1>").values.tolist() == [True, False, True]
    assert resource(b"\x80\x3f\x40\xc0", "tensor<2xbf16>").values.tolist() == [1, -3]


def test_a_resource_of_the_wrong_size_is_told_where_it_is_used():
    assert resource(b"\0" * 5, "tensor<2xf32>").why == "its data is 5 bytes, expected 8"
    missing = constant("dense_resource<nowhere> : tensor<4xf32>")
    assert missing.why == "the file has no data of that name"


def processor_seconds():
    """Of this process and of the one that parses, whatever others do meanwhile."""
    (parser,) = reader._idle
    times = Path(f"/proc/{parser._process.pid}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + sum(map(int, times[11:13])) / os.sysconf("SC_CLK_TCK")


def test_large_constants_come_by_bytes():
    values = np.random.default_rng(0).random(500_000, np.float32)
    read("module {}")  # so that the process that parses is there
    start = processor_seconds()
    dense = resource(values.tobytes(), "tensor<500000xf32>")
    assert processor_seconds() - start < 5
    np.testing.assert_array_equal(dense.values, values)


def test_attributes():
    (operation,) = body(
        '%0 = "tensor.empty"() {a, b = [1 : i32, "x"], c = @s::@t, d = @s, e = array<i64: 1, 2>,'
        " f = {g = i32}, h = affine_map<(d0)[s0] -> (d0 floordiv 2 + s0 mod 3, 4)>,"
        " i = array<i1: true>, j = #linalg.iterator_type<parallel>} : () -> tensor<f32>"
    )
    found = operation.attributes
    number = [form.ParsedAffineExpr("constant", value) for value in range(5)]
    half = form.ParsedAffineExpr("floordiv", parts=(form.ParsedAffineExpr("dim", 0), number[2]))
    rest = form.ParsedAffineExpr("mod", parts=(form.ParsedAffineExpr("symbol", 0), number[3]))
    assert found["a"] is None
    assert found["b"] == (np.int32(1), "x")
    assert found["c"] == "s::t"
    assert found["d"] == "s"
    assert found["e"] == (1, 2)
    assert found["f"] == {"g": form.ParsedScalarType("int32")}
    assert found["h"] == form.ParsedAffineMap(
        1, 1, (form.ParsedAffineExpr("add", parts=(half, rest)), number[4])
    )
    assert found["i"] == (True,)
    assert found["j"] == form.Opaque("#linalg.iterator_type<parallel>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tensor<2x?xcomplex<f32>>", form.ParsedTensorType((2, None), "complex64")),
        ("vector<4xi1>", form.ParsedTensorType((4,), "bool", vector=True)),
        ("index", form.ParsedScalarType("index")),
        ("ui16", form.ParsedScalarType("uint16")),
        ("tensor<f4E2M1FN>", form.ParsedTensorType((), "float4_e2m1fn")),
        ("vector<[4]xf32>", form.OtherType("vector<[4]xf32>")),
        ("i128", form.OtherType("i128")),
        (f"tensor<{2**40}x?x{2**8}xi8>", form.ParsedTensorType((2**40, None, 2**8), "int8")),
        (f"tensor<{2**40}x{2**9}xi8>", form.OtherType(f"tensor<{2**40}x{2**9}xi8>")),
        ("tensor<2xi128>", form.OtherType("tensor<2xi128>")),
        ("tensor<*xf32>", form.OtherType("tensor<*xf32>")),
        ("!hal.buffer_view", form.OtherType("!hal.buffer_view")),
    ],
)
def test_types(text, expected):
    (function,) = read(f"func.func private @f({text})").operations
    assert function.attributes["function_type"].inputs == (expected,)


def test_locations_of_the_program_that_the_text_was_made_from():
    (operation,) = body(
        '%0 = tensor.empty() : tensor<f32> loc(fused<"m">["name"("model.py":12:3), unknown])'
    )
    assert operation.location == form.Location(12, 3, "model.py")
    assert str(operation.location) == "model.py:12:3"
    (operation,) = body("%0 = tensor.empty() : tensor<f32> loc(unknown)")
    assert operation.location == form.Location(0, 0)


def test_a_file_or_its_name(tmp_path):
    path = tmp_path / "a.mlir"
    path.write_text("module @named {}")
    assert read(path).name == "named"
    assert read(str(path)).name == "named"
    assert read(b"module @named {}").name == "named"


def test_bytecode(tmp_path):
    from iree.compiler import ir

    path = tmp_path / "a.mlirbc"
    with ir.Context(), path.open("wb") as file:
        module = ir.Module.parse("func.func @f() { return }")
        module.operation.write_bytecode(file)
    (function,) = read(path).operations
    assert function.attributes["sym_name"] == "f"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("func.func @f( }", "<text>:1:14: expected non-function type"),
        (
            "\n  func.func @f(%a: i32) -> f32 {\n return %a : i32 }",
            "<text>:3:2: type of return operand 0 ('i32') doesn't match function result type"
            " ('f32') in function @f",
        ),
        ("%0 = foo.bar : i32", "<text>:1:6: Dialect `foo' not found"),
        ("module {", "<text>:1:7: expected operation name"),
        ("module {}\0", "<text>:1: a null byte"),
        (b"\xff\xfe", "<text>:1:1: unexpected character"),
        (b"ML\xefRxxxx", "<text>"),
        ("%0 = arith.constant dense<0> : tensor<99999999999999999999999xi8>", "invalid dimension"),
    ],
)
def test_what_iree_says_of_bad_text(text, said):
    with pytest.raises(MlirError) as error:
        read(text)
    assert said in str(error.value)


def test_what_it_says_of_files(tmp_path):
    with pytest.raises(MlirError, match=r"none\.mlir: No such file"):
        read("none.mlir")
    with pytest.raises(MlirError, match="Is a directory"):
        read(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    for endless in (Path("/dev/zero"), tmp_path / "fifo"):
        with pytest.raises(MlirError, match="not a regular file"):
            read(endless)
    path = tmp_path / "bad.mlir"
    path.write_text("\n\n  oops")
    with pytest.raises(MlirError, match=r"bad\.mlir:3:3: "):
        read(path)


def test_a_limit_of_bytes(tmp_path):
    path = tmp_path / "a.mlir"
    path.write_text("module {}" + " " * 100)
    for source in (path, path.read_text()):
        with pytest.raises(MlirError, match="more than the limit of 50 bytes; raise limit_bytes"):
            read(source, limit_bytes=50)


def test_a_limit_of_time():
    text = "\n".join(f"%a{i} = arith.constant {i} : i32" for i in range(200_000))
    with pytest.raises(MlirError, match=r"parsing takes more than 0\.2 s"):
        read(f"func.func @f() {{\n{text}\nreturn }}", limit_s=0.2)
    assert read("module @next {}").name == "next"


@pytest.mark.costly
@pytest.mark.parametrize(
    "text",
    [
        "module {" * 100_000,
        "func.func @f(%a: " + "tuple<" * 200_000,
        "func.func @f() { %0 = arith.constant dense<" + "[" * 300_000,
        "module attributes {a = " + "[" * 300_000,
    ],
    ids=["regions", "types", "elements", "attributes"],
)
def test_nesting_that_ends_the_parser_is_an_error(text):
    with pytest.raises(MlirError, match=r"<text>: IREE's parser was ended by SIG|<text>:1:"):
        read(text)
    assert read("module @next {}").name == "next"


def test_nesting_that_parses_has_a_limit():
    text = "module {" * 100 + "}" * 100
    with pytest.raises(MlirError, match="regions are nested more than 64 deep"):
        read(text)
    nested = "[" * 100 + "]" * 100
    with pytest.raises(MlirError, match="attributes are nested more than 64 deep"):
        read(f"module attributes {{a.a = {nested}}} {{}}")
    deep = "+".join(["d0 floordiv 2"] + ["s0 mod 3"] * 100)
    (module,) = read(
        f"module {{ module attributes {{a.a = affine_map<(d0)[s0] -> ({deep})>}} {{}} }}"
    ).operations
    assert isinstance(module.attributes["a.a"], form.Opaque)


def test_memory_has_a_limit(monkeypatch):
    monkeypatch.setattr(reader, "_BASE_MEMORY", 64 << 20)
    monkeypatch.setattr(reader, "MEMORY_PER_BYTE", 0)
    text = "\n".join(f"%a{i} = arith.constant {i} : i32" for i in range(200_000))
    with pytest.raises(MlirError, match=r"<text>: (it takes more than|IREE's parser)"):
        read(f"func.func @f() {{\n{text}\nreturn }}")
    monkeypatch.undo()
    assert read("module @next {}").name == "next"


def test_what_is_sent_is_no_code(monkeypatch):
    """The process has read hostile text: what it says is data, whatever it says."""
    import pickle
    import socket

    from tvm_iree_ext.mlir.reading import wire

    class Evil:
        def __reduce__(self):
            return os.system, ("exit 1",)

    ours, theirs = socket.socketpair()
    monkeypatch.setattr(wire, "_Pickler", pickle.Pickler)
    wire.Line(theirs).send(Evil())
    with pytest.raises(EOFError, match="has no place in a message"):
        wire.Line(ours).receive()
    theirs.sendall(b"\xff" * 64)
    with pytest.raises(EOFError):
        wire.Line(ours).receive()


def test_one_process_serves_many_texts_and_threads_have_their_own():
    reader.stop()
    read("module {}")
    (process,) = reader._idle
    read("module {}")
    assert reader._idle == [process]
    names = []
    threads = [
        threading.Thread(target=lambda i=i: names.append(read(f"module @m{i} {{}}").name))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names) == ["m0", "m1", "m2", "m3"]


def test_a_process_that_was_killed_meanwhile_is_replaced():
    read("module {}")
    process = reader._idle[-1]._process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert read("module @next {}").name == "next"


def test_a_script_without_a_main_guard_reads_and_ends(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom tvm_iree_ext.mlir.reading.reader import read\n"
        "print(read('module @m {}').name)\n"
        "print([name for name in sys.modules if name in ('tvm', 'iree.compiler')])\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout == "m\n[]\n"
    assert done.stderr == ""


def test_a_process_that_starts_early_reads_the_next_text():
    reader.stop()
    reader.start_early()
    reader.start_early()
    (process,) = reader._idle
    assert read("module {}").operations == []
    assert reader._idle == [process]
