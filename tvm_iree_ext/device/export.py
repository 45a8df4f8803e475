"""Write compiled GPU kernels to a folder, with what it takes to launch them without TVM.

kernel.hsaco, kernel.s                    ROCm: the code object and its assembly
kernel.cu, .ptx, .cubin, .sass            CUDA: as far as the tools at hand went
manifest.json                             target, kernels: launch extents, arguments, resources
launch.py, launch.cpp, kernels.h          launchers by the driver's own interface
"""

import dataclasses
from importlib.resources import files
from pathlib import Path
from typing import Any

from tvm_iree_ext.artifact import as_folder, write
from tvm_iree_ext.device import launcher
from tvm_iree_ext.device.code import DeviceCode
from tvm_iree_ext.errors import BuildError
from tvm_iree_ext.manifest import DeviceManifest
from tvm_iree_ext.target.names import target_json

_AXES = "xyz"


def export_device(code: DeviceCode, folder: Path | str, *, name: str = "kernel") -> Path:
    """Write the artifact; one that stands there is replaced in one step.

    Args:
        code: what :func:`~tvm_iree_ext.device.code.compile_device` made.
        folder: where to.
        name: of the artifact, for the manifest.

    Raises:
        BuildError: for a grid that depends on the arguments, which the launchers do not compute.
        ArtifactError: where the folder cannot be written, or holds something else.
    """
    kernels = [_kernel(code, kernel) for kernel in code.launches]
    target = target_json(code.target)
    manifest = DeviceManifest(name=name, kernels=tuple(kernels), target=target)
    contents = _contents(code, kernels)

    def fill(place: Path) -> None:
        for file, content in contents.items():
            if isinstance(content, bytes):
                (place / file).write_bytes(content)
            else:
                (place / file).write_text(content)

    write(folder, manifest, fill)
    return as_folder(folder)


def _kernel(code: DeviceCode, name: str) -> dict[str, Any]:
    launch = code.launches[name]
    if launch.dynamic:
        raise BuildError(
            f"{name}: {', '.join(launch.dynamic)} depends on the arguments; launchers take numbers"
        )
    resources = code.resources.get(name)
    return {
        "name": name,
        "grid": [launch.extents.get(f"blockIdx.{axis}", 1) for axis in _AXES],
        "block": [launch.extents.get(f"threadIdx.{axis}", 1) for axis in _AXES],
        "arguments": [
            {"name": argument.name, "dtype": argument.dtype, "shape": list(argument.shape)}
            for argument in code.arguments[name]
        ],
        "resources": dataclasses.asdict(resources) if resources else {},
    }


def _contents(code: DeviceCode, kernels: list[dict[str, Any]]) -> dict[str, str | bytes]:
    rocm = code.target.kind.name == "rocm"
    assembly, binary = ("kernel.s", "kernel.hsaco") if rocm else ("kernel.sass", "kernel.cubin")
    made: dict[str, str | bytes | None] = {
        "kernel.cu": code.source,
        "kernel.ptx": code.ptx,
        assembly: code.assembly,
        binary: code.binary,
        "launch.py": Path(launcher.__file__).read_text(),
        "launch.cpp": files("tvm_iree_ext.device").joinpath("launch.cpp").read_text(),
        "kernels.h": _header(code, kernels, binary),
    }
    return {file: content for file, content in made.items() if content is not None}


def _header(code: DeviceCode, kernels: list[dict[str, Any]], binary: str) -> str:
    """The launch extents and arguments as C++ constants."""
    names = launcher.DRIVERS[code.target.kind.name]
    lines = ["// Made with the kernels: how they are launched.", "#include <cstddef>", ""]
    if code.target.kind.name == "cuda":
        lines.append("#define FOR_CUDA")
    lines += [
        "struct Argument { const char* name; std::size_t bytes; };",
        "struct Kernel {",
        "  const char* name; unsigned grid[3], block[3];",
        "  const Argument* arguments; int num_arguments;",
        "};",
        "",
    ]
    rows = []
    for kernel, arguments in ((k, code.arguments[k["name"]]) for k in kernels):
        listed = ", ".join(f'{{"{a.name}", {a.bytes}}}' for a in arguments)
        lines.append(f"static const Argument {kernel['name']}_arguments[] = {{{listed}}};")
        extents = (", ".join(map(str, kernel[key])) for key in ("grid", "block"))
        grid, block = extents
        rows.append(
            f'  {{"{kernel["name"]}", {{{grid}}}, {{{block}}}, {kernel["name"]}_arguments,'
            f" {len(arguments)}}},"
        )
    libraries = ", ".join(f'"{library}"' for library in names["libraries"])
    lines += ["static const Kernel kernels[] = {", *rows, "};", ""]
    lines += [f"static const char* const driver_libraries[] = {{{libraries}}};"]
    lines += [f'static const char* const binary_file = "{binary}";']
    lines += [
        f'static const char* const driver_{key} = "{function}";'
        for key, function in names.items()
        if key not in ("libraries", "free")
    ]
    return "\n".join(lines) + "\n"
