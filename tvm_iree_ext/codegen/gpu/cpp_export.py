"""Write compiled GPU kernels to a folder, with what it takes to launch them without TVM.

kernel.hsaco, kernel.s                    ROCm: the code object and its assembly
kernel.cu, .ptx, .cubin, .sass            CUDA: as far as the tools at hand went
manifest.json                             target, resources, the launch plan (:mod:`.launch_plan`)
launch.py                                 follows the plan, by NumPy and the driver
launch.h, kernels.h, launch.cpp           the same in C++
"""

import dataclasses
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from tvm_iree_ext.codegen.gpu.device_code import DeviceCode
from tvm_iree_ext.codegen.gpu.launch_plan.cpp_header import header
from tvm_iree_ext.codegen.gpu.launch_plan.launch_plan import Plan
from tvm_iree_ext.runtime.artifact import as_folder, write
from tvm_iree_ext.runtime.launch import launcher
from tvm_iree_ext.runtime.manifest import DeviceManifest
from tvm_iree_ext.targets.names import target_json


def export_device(code: DeviceCode, folder: Path | str, *, name: str = "kernel") -> Path:
    """Write the artifact; one that stands there is replaced in one step.

    Args:
        code: what :func:`~tvm_iree_ext.codegen.gpu.device_code.compile_device` made.
        folder: where to.
        name: of the artifact, for the manifest and for C++.

    Raises:
        BuildError: for launches that a plan cannot say.
        ArtifactError: where the folder cannot be written, or holds something else.
    """
    plan = code.plan()
    manifest = DeviceManifest(
        name=name, launch=plan, target=target_json(code.target), resources=device_resources(code)
    )
    write(folder, manifest, lambda place: write_files(code, plan, name, place))
    return as_folder(folder)


def device_resources(code: DeviceCode) -> dict[str, Any]:
    """Resources of the kernels, for a manifest: the compiler's figures by kernel."""
    figures = {name: dataclasses.asdict(one) for name, one in code.resources.items()}
    missing = {"missing": code.missing} if code.missing else {}
    return {"binary_bytes": len(code.binary or b""), "kernels": figures, **missing}


def write_files(code: DeviceCode, plan: Plan, name: str, place: Path) -> None:
    """Write all but the manifest to a folder."""
    made = _code_files(code)
    made |= {file: _launch_file(file) for file in _CPP}
    loaded = [file for file in launcher.BINARIES if made.get(file) is not None]
    made["kernels.h"] = header(name, plan, code.target.kind.name, loaded)
    _write(made, place)


def write_program_files(code: DeviceCode, place: Path) -> None:
    """The same for a program, whose functions are launched from Python."""
    _write(_code_files(code), place)


def _code_files(code: DeviceCode) -> dict[str, str | bytes | None]:
    rocm = code.target.kind.name == "rocm"
    assembly, binary = ("kernel.s", "kernel.hsaco") if rocm else ("kernel.sass", "kernel.cubin")
    return {
        "kernel.cu": code.source,
        "kernel.ptx": code.ptx,
        assembly: code.assembly,
        binary: code.binary,
        "launch.py": _launch_script(),
    }


def _launch_script() -> str:
    """The launcher in one file: the modules that it imports stand where it does so."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        text = _launch_file(f"{name}.py")
        for module in _OWN_IMPORT.findall(text):
            if module not in parts:
                add(module)
        parts[name] = text

    add("launcher")
    launcher = parts.pop("launcher")
    place = next(_OWN_IMPORT.finditer(launcher)).start()
    modules = "\n".join(_OWN_IMPORT.sub("", _code_of(text)) for text in parts.values())
    return launcher[:place] + modules + _OWN_IMPORT.sub("", launcher[place:])


def _code_of(text: str) -> str:
    """A module's text behind its docstring."""
    return text.split('"""', 2)[2].lstrip()


def _launch_file(name: str) -> str:
    return files("tvm_iree_ext.runtime.launch").joinpath(name).read_text()


def _write(made: Mapping[str, str | bytes | None], place: Path) -> None:
    for file, content in made.items():
        if isinstance(content, bytes):
            (place / file).write_bytes(content)
        elif content is not None:
            (place / file).write_text(content)


_CPP = ("launch.h", "launch.cpp")
_OWN_IMPORT = re.compile(
    r"^from tvm_iree_ext\.runtime\.launch\.(\w+) import (?:\([^)]*\)|.*)\n", re.MULTILINE
)
