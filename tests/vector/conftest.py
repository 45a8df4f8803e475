import numpy as np
import pytest
import tvm

from tvm_iree_ext import vector
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.runtime import arrays
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.vector.analysis.op_counts import count
from tvm_iree_ext.vector.ir.vector_types import numpy_type

_MARGIN, _CANARY = 4096, 0xA5
"""Bytes before and behind each array, and what is in them."""


class Guarded:
    """An array amid bytes that no kernel may change; aligned to an item and no more."""

    def __init__(self, value):
        value = np.asarray(value)
        self._space = np.full(value.nbytes + 2 * _MARGIN + 64, _CANARY, np.uint8)
        start = _MARGIN + (-self._space.ctypes.data) % 64 + value.dtype.itemsize
        self._part = slice(start, start + value.nbytes)
        self.array = self._space[self._part].view(value.dtype).reshape(value.shape)
        self.array[...] = value

    def is_intact(self):
        around = np.delete(self._space, self._part)
        return bool((around == _CANARY).all())


@pytest.fixture(scope="session")
def compiled():
    """``compiled([(program, inputs), ...])``: the results of each by name, built all at once."""

    def run(pairs):
        cpu_pipeline.register()
        names = {id(program): f"f{i}" for i, (program, _) in enumerate(pairs)}
        functions = {
            names[id(program)]: program.prim_func().with_attr("global_symbol", names[id(program)])
            for program in {id(program): program for program, _ in pairs}.values()
        }
        library = tvm.compile(
            tvm.IRModule(functions),
            target=make_target("llvm"),
            tir_pipeline=cpu_pipeline.CPU_PIPELINE,
        )
        found = []
        for program, inputs in pairs:
            arguments, arrays_of, symbols = [], [], {}
            for operand in program.signature.arguments:
                value = inputs[operand.name]
                if operand.role == "scalar":
                    arguments.append(np.asarray(value).item())
                    continue
                symbols.update(zip(operand.shape, value.shape, strict=True))
                arrays_of.append(Guarded(value))
                arguments.append(arrays.as_tensor(arrays_of[-1].array))
            shapes = program.signature.result_shapes(symbols)
            results = {
                operand.name: Guarded(np.zeros(shape, arrays.numpy_dtype(operand.dtype)))
                for operand, shape in zip(program.signature.results, shapes, strict=True)
            }
            places = [arrays.as_tensor(one.array) for one in results.values()]
            library[names[id(program)]](*arguments, *places)
            for one in [*arrays_of, *results.values()]:
                assert one.is_intact(), f"changed beside an array by\n{program}\nwith {inputs}"
            found.append({name: one.array for name, one in results.items()})
        return found

    return run


@pytest.fixture(scope="session")
def agree(compiled):
    """Checks that programs compute the same compiled as they mean, within a tolerance in ulps."""

    def check(pairs, ulps=0):
        for (program, inputs), got in zip(pairs, compiled(pairs), strict=True):
            want = program.evaluate(**inputs)
            assert got.keys() == want.keys()
            for name, array in want.items():
                assert_near(got[name], array, ulps, f"{name} of\n{program}\nwith {inputs}")

    return check


def assert_near(got, want, ulps, message):
    assert got.dtype == want.dtype, message
    assert got.shape == want.shape, message
    if got.dtype.kind in "bi":
        np.testing.assert_array_equal(got, want, message)
        return
    from ml_dtypes import finfo

    kept = finfo(want.dtype)
    wide, expected = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        scale = np.maximum(np.nanmax(np.abs(expected[np.isfinite(expected)]), initial=0), 1e-30)
        allowed = ulps * float(kept.eps) * scale
        near = np.abs(wide - expected) <= allowed
    same = (wide == expected) | (np.isnan(wide) & np.isnan(expected)) | near
    assert same.all(), f"{message}\n{got}\n{want}"


class Values:
    """Arguments by their types: ``values.v4x8`` is a vector<4x8xf32>, ``values.t4x8`` a tensor."""

    def __init__(self, b):
        self._b = b

    def __getattr__(self, name):
        kind = {"v": vector.vector, "t": vector.tensor, "m": vector.buffer}[name[0]]
        extents, _, dtype = name[1:].partition("_")
        shape = [int(e) if e.isdecimal() else "?" for e in extents.split("x") if e]
        type = kind(shape, dtype or "f32") if shape else vector.scalar(dtype)
        for argument in self._b.entry.arguments:
            if argument.hint == name:
                return argument
        return self._b.argument(name, type)


@pytest.fixture(scope="session")
def refused():
    """``refused(build, code, message)``: a program that ``build(b, values)`` would be part of."""

    def check(build, code, message):
        with vector.program("refused") as b:
            with pytest.raises(vector.VectorError, match=message) as caught:
                build(b, Values(b))
            assert caught.value.code == code
            b.returns()

    return check


@pytest.fixture
def same():
    """``same(program, changed)``: both give the same, for small numbers, of which sums are exact.

    Inputs of type index are given by name.  Returns the op counts of the changed program.
    """

    def check(program, changed, **named):
        rng = np.random.default_rng(len(str(program)))
        arrays = {}
        for one in program.inputs:
            shape = [5 if isinstance(extent, str) else extent for extent in one.shape]
            drawn = rng.integers(
                0 if one.dtype == "bool" else -8, 2 if one.dtype == "bool" else 9, shape
            )
            arrays[one.hint] = np.asarray(named.get(one.hint, drawn)).astype(numpy_type(one.dtype))
        changed.verify()
        want, got = program.evaluate(**arrays), changed.evaluate(**arrays)
        assert want.keys() == got.keys()
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=f"{program}\n{changed}")
        return count(changed.body)

    return check
