"""Code that LLVM makes in parts is that of the whole."""

import functools

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T
from tvm.target import Target

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen import code_parts, linker
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.targets.names import make_target
from tvm_iree_ext.tir.function_body import with_body

HERE = make_target("llvm")


@functools.cache
def template():
    """Parsed once: the parser takes longer than the compiler."""

    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((64,), "float32", align=4), y: T.Buffer((64,), "float32", align=4)):
        T.func_attr({"tirx.noalias": True})
        for element in T.serial(64):
            with T.sblock("scaled"):
                ve = T.axis.spatial(64, element)
                y[ve] = T.exp(x[ve]) * T.float32(0.5)

    return func


def scaled(number):
    def other(factor, _):
        return tirx.FloatImm(factor.ty, number)

    body = tvm_ffi.structural_mutate(template().body, [(tirx.FloatImm, other)])
    return with_body(template(), body).with_attr("global_symbol", f"scaled{number}")


def module(count):
    return tvm.IRModule({f"scaled{number}": scaled(number) for number in range(count)})


def test_every_function_is_in_the_library(tmp_path):
    cpu_pipeline.register()
    count = 4 * code_parts._PART + 3
    path = tmp_path / "library.so"
    resources = linker.compile_library(module(count), HERE, path, cpu_pipeline.CPU_PIPELINE)
    assert resources["code_bytes"] > 0
    library = tvm.runtime.load_module(str(path))
    x = np.linspace(-1, 1, 64, dtype="float32")
    for number in range(count):
        y = tvm.runtime.tensor(np.zeros(64, "float32"))
        library[f"scaled{number}"](tvm.runtime.tensor(x), y)
        np.testing.assert_allclose(y.numpy(), np.exp(x) * number, rtol=1e-5)


def test_the_library_is_the_same_on_any_machine(tmp_path, monkeypatch):
    cpu_pipeline.register()
    libraries = []
    for cores in (1, 3):
        monkeypatch.setattr(code_parts, "_cores", lambda cores=cores: cores)
        path = tmp_path / f"{cores}.so"
        linker.compile_library(module(9), HERE, path, cpu_pipeline.CPU_PIPELINE)
        libraries.append(path.read_bytes())
    assert libraries[0] == libraries[1]


@pytest.mark.costly
@pytest.mark.parametrize(("functions", "parts"), [(1, 1), (7, 1), (8, 2), (36, 8)])
def test_a_part_has_some_functions(functions, parts):
    assert code_parts.part_count(module(functions), HERE) == parts


def test_options_of_llvm_itself_are_of_one_part():
    target = Target({"kind": "llvm", "cl-opt": ["-unroll-threshold=100"]})
    assert code_parts.part_count(module(20), target) == 1


def test_what_llvm_refuses_in_a_part_is_an_error(tmp_path, monkeypatch):
    cpu_pipeline.register()

    def refused(part, target):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(code_parts, "codegen_build", refused)
    with pytest.raises(BuildError, match="no such instruction"):
        linker.compile_library(module(9), HERE, tmp_path / "l.so", cpu_pipeline.CPU_PIPELINE)


def test_who_calls_another_is_in_one_part_with_it():
    @T.prim_func(s_tir=True)
    def caller(x: T.handle, y: T.handle):
        T.func_attr({"global_symbol": "caller"})
        T.evaluate(T.call_extern("int32", "scaled5", x, y))
        T.evaluate(T.call_extern("int32", "scaled2", x, y))

    whole = module(6)
    whole["caller"] = caller
    parts = [{v.name_hint for v in p.functions} for p in code_parts._parts(whole, 3)]
    assert {"caller", "scaled5", "scaled2"} <= next(one for one in parts if "caller" in one)
    assert sorted(name for one in parts for name in one) == [
        "caller",
        *(f"scaled{n}" for n in range(6)),
    ]
