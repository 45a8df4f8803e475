"""Transfers from any start touch nothing outside their memory, as they are and lowered."""

import itertools

import numpy as np
import pytest

from tvm_iree_ext import vector
from tvm_iree_ext.vector.ir.vector_types import numpy_type
from tvm_iree_ext.vector.patterns import RegisterWidths, lower_transfers, unroll

FAR = (-(2**63), -(2**62), -(2**31), 2**31, 2**62, 2**63 - 64)
FORMS = {
    "as it is": lambda program: program,
    "unrolled": lambda program: unroll(program, RegisterWidths()),
    "lanes": lower_transfers,
    "conditions": lambda program: lower_transfers(program, "conditions"),
    "unrolled lanes": lambda program: lower_transfers(unroll(program, RegisterWidths())),
}
CASES = [
    # memory, vector, map, element type, is masked, is a buffer
    ((6,), (4,), "(i) -> (i)", "f32", False, False),
    (("n",), (8,), "(i) -> (i)", "f32", True, True),
    (("n", 6), (2, 4), "(i, j) -> (i, j)", "f16", False, False),
    ((5, "n"), (8, 2), "(i, j) -> (j, i)", "i64", True, False),
    ((3, 4, 5), (2, 3, 4), "(i, j, k) -> (k, 0, i)", "f32", True, True),
    ((4, 5), (3,), "(i, j) -> (i)", "f64", False, True),
]


def program(shape, sizes, map, dtype, is_masked, is_buffer):
    """A read and, where the map has one, a write from starts that are arguments."""
    type = (vector.buffer if is_buffer else vector.tensor)(shape, dtype)
    with vector.program("outside") as b:
        source, dest = b.argument("source", type), b.argument("dest", type)
        at = [b.argument(f"at{dim}", "index") for dim in range(len(shape))]
        options = {"permutation_map": map}
        if is_masked:
            parsed = vector.AffineMap.parse(map)
            order = [parsed.dims.index(dim) for dim in sorted(parsed.used)]
            type = vector.vector([sizes[p] for p in order], "i1")
            options["mask"] = b.argument("mask", type)
        results = {"read": b.transfer_read(source, at, sizes, padding=7, **options)}
        if "0" not in map:
            value = b.argument("value", vector.vector(sizes, dtype))
            written = b.transfer_write(value, dest, at, **options)
            results |= {} if written is None else {"written": written}
        b.returns(**results)
    return b.program


def starts(rng, program):
    """Around the ends of dims that the map names, and far beyond; 0 in others."""
    (transfer,) = program.find("vector.transfer_read")
    used = transfer.attributes["permutation_map"].used
    for near, far in itertools.product(range(-9, 10, 3), FAR):
        at = {f"at{dim}": 0 for dim in range(transfer.operand("source").rank)}
        for dim in used:
            at[f"at{dim}"] = int(
                rng.choice([near, near + 1, near + 2, far], p=[0.3, 0.3, 0.2, 0.2])
            )
        yield at


def inputs(rng, program):
    arrays = {}
    for one in program.inputs:
        shape = [4 if extent == "n" else extent for extent in one.shape]
        kind = numpy_type(one.dtype)
        arrays[one.hint] = rng.integers(0, 2 if one.dtype == "bool" else 7, shape).astype(kind)
    return arrays


@pytest.mark.costly
@pytest.mark.parametrize("form", FORMS)
def test_transfers_from_any_start_stay_in_their_memory(agree, form):
    rng = np.random.default_rng(0)
    pairs = []
    for case in CASES:
        given = program(*case)
        changed = FORMS[form](given)
        pairs += [(changed, inputs(rng, given) | at) for at in starts(rng, given)]
    agree(pairs)


@pytest.mark.costly
@pytest.mark.parametrize("form", FORMS)
def test_lowered_transfers_mean_the_same_from_any_start(form):
    rng = np.random.default_rng(1)
    for case in CASES:
        given = program(*case)
        changed = FORMS[form](given)
        for at in starts(rng, given):
            arrays = inputs(rng, given) | at
            got, want = changed.evaluate(**arrays), given.evaluate(**arrays)
            for name, array in want.items():
                np.testing.assert_array_equal(got[name], array, err_msg=f"{changed}\nfrom {at}")


def test_a_known_start_below_0_is_outside(agree):
    with vector.program("known") as b:
        source = b.argument("source", vector.tensor((6,)))
        value = b.argument("value", vector.vector((4,)))
        read = b.transfer_read(source, [-2], (4,), padding=-1.0)
        b.returns(read=read, written=b.transfer_write(value, source, [-2]))
    given = {"source": np.arange(6, dtype="f4"), "value": np.full(4, 9, "f4")}
    assert b.program.evaluate(**given)["read"].tolist() == [-1, -1, 0, 1]
    agree([(FORMS[form](b.program), given) for form in FORMS])
