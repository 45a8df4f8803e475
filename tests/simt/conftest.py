import functools
from collections.abc import Callable

import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir.pipeline import default_s_tir_pipeline
from tvm.target import Target

from tvm_iree_ext.simt import device_functions

TARGETS = {
    "sm_80": {"kind": "cuda", "arch": "sm_80"},
    "gfx942": {
        "kind": "rocm",
        "mcpu": "gfx942",
        "thread_warp_size": 64,
        "max_num_threads": 1024,
        "max_threads_per_block": 1024,
    },
}


@functools.cache
def target_of(chip: str) -> Target:
    return Target(TARGETS[chip], host="llvm")


def lowered_for(func: tirx.PrimFunc, chip: str = "sm_80") -> tirx.PrimFunc:
    """The device function that TVM's pipeline makes of ``func``, as code generation gets it."""
    target = target_of(chip)
    module = tirx.transform.BindTarget(target)(tvm.IRModule({"main": func}))
    pipeline, _, finish = default_s_tir_pipeline()
    with target:
        (device,) = device_functions(pipeline(module))
        (finished,) = finish()(tvm.IRModule({"main": device})).functions.values()
    return finished


@pytest.fixture(scope="session")
def lowered() -> Callable[..., tirx.PrimFunc]:
    return lowered_for


def _name(statement: tirx.Evaluate) -> str:
    return str(getattr(getattr(statement.value, "op", None), "name", ""))


def without_call(func: tirx.PrimFunc, name: str, number: int) -> tirx.PrimFunc | None:
    """``func`` less the ``number``-th statement that calls ``name``; None where there is none."""
    seen = []

    def drop(statement: tirx.Evaluate) -> tirx.Evaluate:
        if _name(statement) != f"tirx.{name}":
            return statement
        seen.append(statement)
        if len(seen) != number + 1:
            return statement
        return tirx.Evaluate(tirx.const(0, "int32"))

    body = tvm_ffi.structural_map(func.body, (tirx.Evaluate, drop))
    return func.with_body(body) if len(seen) > number else None


@pytest.fixture(scope="session")
def without() -> Callable[..., tirx.PrimFunc | None]:
    return without_call
