"""Who runs a program: ours, and the peers, each set up for a number of threads when it is called.

A peer is given what it needs to run at all: another exporter, simpler operators, float32 where it
has no bfloat16.  What it was is said in the row.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tvm_iree_ext.bench.base.bench_case import OURS, TORCH, Call, Library, Skipped
from tvm_iree_ext.bench.peers import iree_peer, jax_peer, onnx_runtime, torch_compile
from tvm_iree_ext.bench.programs.models.program_model import Model
from tvm_iree_ext.bench.programs.program_case import Framework
from tvm_iree_ext.frontends.torch import torch_export
from tvm_iree_ext.runtime.program import Program

_MOST_CHARACTERS = 200  # of a reason
_INDUCTOR_FOLDER = "TORCHINDUCTOR_CACHE_DIR"


@dataclass
class ProgramSubject:
    """A program that is run, by its framework.

    Attributes:
        folder: for files, which the caller removes.
        notes: what a contender needed, by its name.
    """

    framework: Framework
    model: Model
    folder: Path
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def is_dynamic(self) -> bool:
        """Whether a call says extents."""
        return "dynamic_shapes" in self.model.options


@dataclass(frozen=True)
class Contestant:
    """One who runs programs of some frameworks."""

    library: Library
    frameworks: tuple[Framework, ...]
    make: Callable[[ProgramSubject], Call]
    imports: tuple[str, ...] = ()  # modules whose import is no part of a build

    @property
    def name(self) -> str:
        """The library's."""
        return self.library.name


def leaves(subject: ProgramSubject, found: Any) -> list[Any]:
    """The arrays that are in arguments or results, in the framework's order."""
    if subject.framework == "torch":
        from torch.utils import _pytree

        return list(_pytree.tree_leaves(found))
    import jax

    return list(jax.tree_util.tree_leaves(found))


def host_array(value: Any) -> np.ndarray:
    """An array or tensor of any of the libraries as NumPy's."""
    if hasattr(value, "detach"):
        value = value.detach()
        if str(value.dtype) == "torch.bfloat16":
            import torch

            return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    elif hasattr(value, "numpy"):  # ONNX Runtime's
        value = value.numpy()
    return np.asarray(value)


def our_call(program: Program, subject: ProgramSubject) -> Call:
    """A call of the program that was built, with the framework's arrays."""
    arguments = leaves(subject, subject.model.arguments)
    return lambda: program(*arguments)


def _inferring(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Call:
    import torch

    def call() -> Any:
        with torch.inference_mode():
            return function(*arguments)

    return call


def _eager(subject: ProgramSubject) -> Call:
    return _inferring(subject.model.function, subject.model.arguments)


def _inductor(subject: ProgramSubject) -> Call:
    if shutil.which("c++") is None:
        raise Skipped("needs a C++ compiler")
    os.environ.setdefault(_INDUCTOR_FOLDER, str(subject.folder / "inductor"))  # built anew

    def set_up(_: int) -> Call:
        compiled = torch_compile.compiled_anew(subject.model.function, dynamic=subject.is_dynamic)
        return _inferring(compiled, subject.model.arguments)

    return torch_compile.opening.call(set_up)


def _onnx(subject: ProgramSubject) -> Call:
    arrays = [host_array(one) for one in leaves(subject, subject.model.arguments)]
    try:
        return _tried_onnx(subject, subject.model.function, subject.model.arguments)
    except Exception as error:
        if not any(array.dtype == ml_dtypes.bfloat16 for array in arrays):
            raise
        subject.notes[onnx_runtime.ORT.name] = f"float32; bfloat16 fails: {in_short(error)}"
    import copy

    module: Any = copy.deepcopy(subject.model.function)
    wide = tuple(
        one.float() if one.is_floating_point() else one
        for one in leaves(subject, subject.model.arguments)
    )
    return _tried_onnx(subject, module.float(), wide)


def _tried_onnx(subject: ProgramSubject, module: Any, arguments: tuple[Any, ...]) -> Call:
    """The call of an exported model, which has run once."""
    model = _exported_onnx(subject, module, arguments)
    call = onnx_runtime.model_call(model, [host_array(one) for one in arguments])
    call()
    return call


def _exported_onnx(subject: ProgramSubject, module: Any, arguments: tuple[Any, ...]) -> bytes:
    import torch

    options = {**subject.model.onnx, "verbose": False}
    if subject.is_dynamic:
        options["dynamic_shapes"] = subject.model.options["dynamic_shapes"]
    with torch_export.without_fast_path():
        exported = torch.onnx.export(module, arguments, dynamo=True, **options)
    return bytes(exported.model_proto.SerializeToString())


def _iree(subject: ProgramSubject) -> Call:
    write = _iree_of_torch if subject.framework == "torch" else _iree_of_jax
    dialect = "torch" if subject.framework == "torch" else "stablehlo"
    arrays = [host_array(one) for one in leaves(subject, subject.model.arguments)]
    try:
        return iree_peer.file_call(write(subject), dialect, arrays)
    except Exception as error:
        if subject.framework != "torch":
            raise
        subject.notes[iree_peer.IREE.name] = f"core operators; as it is: {in_short(error)}"
        return iree_peer.file_call(_iree_of_torch(subject, is_simpler=True), dialect, arrays)


def _iree_of_torch(subject: ProgramSubject, *, is_simpler: bool = False) -> Path:
    from iree.turbine import aot

    model = subject.model
    traced = torch_export.exported(model.function, model.arguments, dict(model.options))
    if is_simpler:
        traced = torch_export.simpler(traced)
    path = subject.folder / f"{'simpler' if is_simpler else 'module'}.mlirbc"
    with torch_export.written(traced):
        aot.export(traced).save_mlir(path)
    return path


def _iree_of_jax(subject: ProgramSubject) -> Path:
    import jax

    jitted = jax.jit(subject.model.function, keep_unused=True)
    path = subject.folder / "module.mlir"
    path.write_text(jitted.lower(*subject.model.arguments).as_text("stablehlo"))
    return path


def _jax(subject: ProgramSubject) -> Call:
    import jax

    def set_up(threads: int) -> Call:
        arguments = jax_peer.placed(subject.model.arguments, threads)
        compiled = jax.jit(subject.model.function).lower(*arguments).compile()
        return lambda: jax.block_until_ready(compiled(*arguments))

    return jax_peer.opening.call(set_up)


def in_short(error: BaseException) -> str:
    """An exception's type and what it says, on one line that is short enough for a table."""
    said = " ".join(str(error).split())
    name = "" if isinstance(error, Skipped) else f"{type(error).__name__}: "
    return f"{name}{said}"[:_MOST_CHARACTERS]


PEERS = {
    one.name: one
    for one in (
        Contestant(TORCH, ("torch",), _eager),
        Contestant(torch_compile.COMPILED, ("torch",), _inductor, ("torch._inductor.compile_fx",)),
        Contestant(onnx_runtime.ORT, ("torch",), _onnx, ("onnxscript", "torch.onnx")),
        Contestant(iree_peer.IREE, ("torch", "jax"), _iree),
        Contestant(jax_peer.JAX, ("jax",), _jax),
    )
}
OUR_NAME = OURS.name
