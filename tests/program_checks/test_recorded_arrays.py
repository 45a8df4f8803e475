"""Arrays of files: in the program's types where that loses nothing, compared as the file says."""

import json

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.base.errors import RecordError
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.program_checks import recorded_arrays
from tvm_iree_ext.program_checks.recorded_arrays import Expectation, Settings


def bf16(*values):
    return np.array(values, ml_dtypes.bfloat16)


def converted(array, dtype):
    return recorded_arrays.as_operand("in0", np.asarray(array), Operand("x", ("n",), dtype))


@pytest.mark.parametrize(
    ("array", "dtype", "expected"),
    [
        (np.float32([1.5, np.nan, -np.inf]), "bfloat16", bf16(1.5, np.nan, -np.inf)),
        (bf16(1.5, 2), "float32", np.float32([1.5, 2])),
        (np.float64([0.5, -0.0]), "float32", np.float32([0.5, -0.0])),
        (np.float64([65504, 2.0**-24]), "float16", np.float16([65504, 2.0**-24])),
        (np.uint8([0, 1]), "bool", np.array([False, True])),
        (np.array([False, True]), "int32", np.int32([0, 1])),
        (np.int64([-(2**31), 2**31 - 1]), "int32", np.int32([-(2**31), 2**31 - 1])),
        (np.uint8([200]), "int8", np.int8([-56])),
        (np.int8([-56]), "uint8", np.uint8([200])),
        (np.int64([3, -(2**24)]), "float32", np.float32([3, -(2**24)])),
        (np.float32([3]), "int32", np.int32([3])),
        (np.complex128([1 + 2j]), "complex64", np.complex64([1 + 2j])),
        (np.float32([1]), "complex64", np.complex64([1])),
        (np.complex64([1]), "float32", np.float32([1])),
        (np.array([1, 2], ">f4"), "float32", np.float32([1, 2])),
        (np.array([1, -2], ">i4"), "uint32", np.uint32([1, 2**32 - 2])),
        (np.zeros((0, 3)), "float32", np.zeros((0, 3), np.float32)),
        (np.float64(7), "float32", np.float32(7)),
    ],
)
def test_converts_where_that_loses_nothing(array, dtype, expected):
    found = converted(array, dtype)
    assert found.dtype == np.asarray(expected).dtype
    assert found.shape == np.shape(expected)
    assert found.tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize(
    ("array", "dtype", "said"),
    [
        (
            np.float64([0.5, 0.1]),
            "float32",
            "in0[1] is 0.1, a float64, which float32 does not hold",
        ),
        (np.float32([0, 257]), "bfloat16", "in0[1] is 257.0"),
        (np.int64([[0, 2**31]]), "int32", "in0[0, 1] is 2147483648, a int64"),
        (np.int32([2]), "bool", "in0[0] is 2"),
        (np.int32([-1]), "uint64", "in0[0] is -1"),
        (np.float32([1.5]), "int32", "in0[0] is 1.5"),
        (np.float32([np.nan]), "int32", "in0[0] is nan"),
        (np.float64([1e300]), "float32", "in0[0] is 1e+300"),
        (np.int64([2**53 + 1]), "float64", "in0[0] is 9007199254740993"),
        (np.complex64([1j]), "float32", "in0[0] is 1j"),
        (np.float64(0.1), "float32", "in0 is 0.1"),
        (np.array(["a"]), "float32", "in0 has elements of <U1; expected float32"),
        (np.zeros(3, "V3"), "bfloat16", "in0 has elements of |V3; expected bfloat16"),
    ],
)
def test_refuses_what_loses_something(array, dtype, said):
    with pytest.raises(RecordError) as error:
        converted(array, dtype)
    assert said in str(error.value)


SIGNATURE = Signature(
    (
        Operand("x", ("n", 2), "float32"),
        Operand("index", ("n",), "int32"),
        Operand("y", ("n",), "float32", "result"),
        Operand("z", ("n",), "int32", "result"),
    )
)
X, INDEX = np.arange(6, dtype=np.float32).reshape(3, 2), np.arange(3)


def test_arguments_by_number_or_name():
    for names in (("in0", "in1"), ("x", "index")):
        arrays = {**dict(zip(names, (X, INDEX), strict=True)), "out0": X}
        x, index = recorded_arrays.arguments("main", SIGNATURE, arrays)
        assert x is X
        assert index.dtype == np.int32
        assert index.tolist() == [0, 1, 2]


@pytest.mark.parametrize("names", [("in0",), ("in0", "in1", "in2"), ("x", "in1"), ("out0",)])
def test_says_which_arrays_it_expects(names):
    with pytest.raises(RecordError, match="expected in0, in1 or x, index"):
        recorded_arrays.arguments("main", SIGNATURE, dict.fromkeys(names, X))


def test_an_array_lies_as_its_strides_say():
    strides = [(8, 1), ("n", 1), (1, "n"), ("n", 2)]
    operands = [Operand(f"x{n}", (3, 2), "float32", strides=one) for n, one in enumerate(strides)]
    arrays = {operand.name: X for operand in operands}
    came = recorded_arrays.arguments("main", Signature(tuple(operands)), arrays)
    assert [one.strides for one in came] == [(32, 4), (8, 4), (4, 12), (12, 8)]
    for one in came:
        np.testing.assert_array_equal(one, X)


def test_a_number_is_passed_as_one():
    signature = Signature(
        (Operand("n", (), "int32", "scalar"), Operand("y", (4,), "float32", "result"))
    )
    (number,) = recorded_arrays.arguments("main", signature, {"in0": np.array(3)})
    assert number == 3
    assert isinstance(number, np.int32)


Y, Z = np.float32([1, 2, 3]), np.int32([1, 2, 3])


def compare(results=(Y, Z), expectation=None, **arrays):
    return recorded_arrays.differences(SIGNATURE, results, {"in0": X, **arrays}, expectation)


def test_names_output_position_and_error():
    assert compare(out0=Y, out1=Z.astype(np.int64)) == []
    assert compare(out0=Y + np.float32([0, 0.5, 0]), out1=Z - 1) == [
        "out0[1] is 2, expected 2.5 within 0.00026, off by 0.5; 1 of 3 elements are wrong",
        "out1[0] is 1, expected 0; 3 of 3 elements are wrong",
    ]
    assert compare(out0=Y[:2], out1=Z) == ["out0 has shape [3], expected [2]"]
    assert compare((Y, np.int32([-1, 0, 0])), out0=Y, out1=np.uint32([2**32 - 1, 0, 0])) == []


def test_the_tolerance_is_the_types_or_the_files():
    near = Y.astype(np.float64) * (1 + 5e-5)
    assert compare(out0=near, out1=Z) == []
    assert compare(out0=near, out1=Z, expectation=Expectation(Settings(rtol=1e-6, atol=0)))
    single = Expectation(Settings(rtol=0, atol=0), {"out0": Settings(rtol=1e-3)})
    assert compare(out0=near, out1=Z, expectation=single) == []
    half = Signature((Operand("y", (1,), "float16", "result"),))
    got, want = np.float16([1.0]), np.float32([1.004])
    assert recorded_arrays.differences(half, [got], {"out0": want}) == []


def test_skips_a_result():
    skipping = Expectation(outputs={"out1": Settings(skip=True)})
    assert compare(out0=Y, out1=Z + 1, expectation=skipping) == []
    assert compare(out0=Y, expectation=skipping) == []


@pytest.mark.parametrize("arrays", [{}, {"out0": Y}, {"out0": Y, "out1": Z, "out2": Z}])
def test_the_file_must_have_the_results_of_the_program(arrays):
    with pytest.raises(RecordError, match="expected out0, out1"):
        compare(**arrays)


def test_reads_back_what_it_writes(tmp_path):
    path = tmp_path / "a.npz"
    recorded_arrays.write_arrays(path, [Y, bf16(1.5, np.inf), np.array([True])])
    arrays = recorded_arrays.read_arrays(path)
    assert [array.dtype.name for array in arrays.values()] == ["float32", "float32", "bool"]
    assert arrays["out1"].tolist() == [1.5, np.inf]
    with pytest.raises(RecordError, match="cannot write"):
        recorded_arrays.write_arrays(tmp_path / "no/a.npz", [Y])


def test_reads_bfloat16_as_numpy_stores_it(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, in0=bf16(1.5, -2))
    raw = recorded_arrays.read_arrays(path)["in0"]
    assert converted(raw, "bfloat16").tolist() == [1.5, -2]


def test_refuses_files_that_are_no_arrays(tmp_path):
    with pytest.raises(RecordError, match="cannot read"):
        recorded_arrays.read_arrays(tmp_path / "none.npz")
    path = tmp_path / "a.npz"
    for content in (b"", b"PK\3\4 cut", b"text"):
        path.write_bytes(content)
        with pytest.raises(RecordError, match=r"no sound \.npz"):
            recorded_arrays.read_arrays(path)
    np.save(tmp_path / "one.npy", Y)
    with pytest.raises(RecordError, match=r"no sound \.npz"):
        recorded_arrays.read_arrays(tmp_path / "one.npy")
    np.savez(path, in0=np.array([object()]))
    with pytest.raises(RecordError, match=r"no sound \.npz: Object arrays"):
        recorded_arrays.read_arrays(path)


def expectation(tmp_path, data):
    path = tmp_path / "a.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return recorded_arrays.read_expectation(path)


def test_reads_how_to_compare(tmp_path):
    found = expectation(
        tmp_path, {"comment": "rounded", "rtol": 0.5, "atol": 0, "out1": {"skip": True, "rtol": 1}}
    )
    assert found == Expectation(Settings(0.5, 0), {"out1": Settings(rtol=1, skip=True)})
    assert expectation(tmp_path, {"skip": ["out0"]}) == Expectation(
        outputs={"out0": Settings(skip=True)}
    )
    assert expectation(tmp_path, {}) == Expectation()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("[", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "holds no JSON object"),
        ({"rtoll": 1}, "no setting 'rtoll'; there are rtol, atol, skip"),
        ({"out1": {"rtol": "1"}}, "out1: rtol is '1'"),
        ({"out1": 3}, "out1: 3 is no JSON object"),
        ({"atol": -1}, "atol is -1"),
        ({"skip": ["one"]}, "skip has 'one'"),
    ],
)
def test_refuses_another_way_to_compare(tmp_path, data, said):
    with pytest.raises(RecordError) as error:
        expectation(tmp_path, data)
    assert said in str(error.value)
