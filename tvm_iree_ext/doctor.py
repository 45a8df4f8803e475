"""Check an installation: the parts it has, and remedies for those it lacks.

Nothing here raises, whatever is missing or broken: that is what it is for.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tvm_iree_ext.base import versions
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.runtime import cache
from tvm_iree_ext.runtime.launch.driver import DRIVERS
from tvm_iree_ext.runtime.machine import this_machine

State = Literal["ok", "missing", "wrong"]

_OLDEST_PYTHON = (3, 10)
_MLIR_ADVICE = "to import MLIR: pip install 'tvm-iree-ext[mlir]'"


@dataclass(frozen=True)
class InstallationFinding:
    """One thing that was looked at; without a ``needed`` one nothing is built."""

    name: str
    state: State
    value: str
    advice: str = ""
    needed: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def examine() -> list[InstallationFinding]:
    """Look at Python, TVM, the processor, compilers, the cache, and what is optional.

    Where artifacts are run and none is built: at Python, the runtime, and drivers of GPUs.
    """
    if versions.is_runtime_alone():
        runtime = _guarded("TVM's runtime", _runtime)
        drivers = [_driver(kind) for kind in DRIVERS]
        return [_python(), _package(versions.RUNTIME), _pair(), runtime, *drivers]
    pair = _pair()
    tvm = _tvm()
    findings = [_python(), _package(versions.WHOLE), pair, tvm]
    if tvm.state == "ok":
        findings += [_guarded("CPU", _cpu), _guarded("threads", _threads)]
        findings += [_linker("linker", "", needed=True), _linker("cross linker", _other_triple())]
        findings += [_guarded("CUDA", _cuda), _guarded("ROCm", _rocm)]
    return [*findings, _cache(), *_optional()]


def is_healthy(findings: list[InstallationFinding]) -> bool:
    """Whether all that is needed is there."""
    return all(finding.state == "ok" for finding in findings if finding.needed)


def _python() -> InstallationFinding:
    came = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info >= _OLDEST_PYTHON:
        return InstallationFinding("Python", "ok", came, needed=True)
    oldest = ".".join(map(str, _OLDEST_PYTHON))
    return InstallationFinding(
        "Python", "wrong", came, f"install Python {oldest} or newer", needed=True
    )


def _version(package: str) -> str | None:
    return versions.installed(package)


def _package(name: str) -> InstallationFinding:
    place = Path(__file__).resolve().parent
    version = _version(name)
    if version is None:
        return InstallationFinding(name, "missing", f"used from {place}", "pip install it")
    if name == versions.WHOLE and _version(versions.RUNTIME) is not None:
        advice = f"both write {place}: pip uninstall {versions.RUNTIME}, then install {name} again"
        return InstallationFinding(name, "wrong", f"with {versions.RUNTIME}", advice)
    return InstallationFinding(name, "ok", f"{version} at {place}")


def _runtime() -> InstallationFinding:
    """Where kernels that are parallel find their threads; an artifact may bring them."""
    from tvm_iree_ext.runtime import tvm_runtime

    try:
        found = str(tvm_runtime.find_runtime())
    except ExtError:
        found = "none here: artifacts bring it that are exported with runtime=True"
    processors = tvm_runtime.available_processors()
    return InstallationFinding("TVM's runtime", "ok", f"{found}; {processors} processors")


def _driver(kind: str) -> InstallationFinding:
    """Whether a GPU's driver is here; not whether it works, which takes a call of it."""
    for name in DRIVERS[kind]["libraries"]:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return InstallationFinding(f"driver for {kind}", "ok", name)
    return InstallationFinding(f"driver for {kind}", "missing", "none", f"to run {kind} artifacts")


def _pair() -> InstallationFinding:
    pair = versions.needed_pair()
    found = ", ".join(f"{name} {_version(name) or 'not installed'}" for name in pair)
    try:
        versions.check_pair()
    except ExtError as error:
        return InstallationFinding("TVM packages", "wrong", found, str(error), needed=True)
    return InstallationFinding("TVM packages", "ok", found, needed=True)


def _tvm() -> InstallationFinding:
    try:
        import tvm
        from tvm.target import codegen

        llvm = codegen.llvm_version_major()
    except Exception as error:  # a broken installation fails in any way
        advice = "reinstall: pip install --force-reinstall apache-tvm apache-tvm-ffi"
        return InstallationFinding(
            "TVM", "wrong", f"does not load: {_line(error)}", advice, needed=True
        )
    return InstallationFinding("TVM", "ok", f"{tvm.__version__} with LLVM {llvm}", needed=True)


def _line(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}"


def _guarded(name: str, look: Callable[[], InstallationFinding]) -> InstallationFinding:
    try:
        return look()
    except Exception as error:  # TVM loads and is broken all the same
        return InstallationFinding(name, "wrong", _line(error), needed=True)


def _cpu() -> InstallationFinding:
    from tvm_iree_ext.targets.cpu import cpu_features
    from tvm_iree_ext.targets.host import host, vector_extensions

    target = host()
    vectors = cpu_features(target)
    listed = ", ".join(vector_extensions(target))
    value = f"{target.attrs['mcpu']} ({this_machine()}), {vectors.vector_bits}-bit vectors"
    return InstallationFinding("CPU", "ok", f"{value}: {listed or 'no extensions'}")


def _threads() -> InstallationFinding:
    from tvm_iree_ext.runtime import tvm_runtime

    names = (
        "TVM_NUM_THREADS",
        "OMP_NUM_THREADS",
        "TVM_BIND_THREADS",
        "TVM_THREAD_POOL_SPIN_COUNT",
    )
    given = [f"{name}={os.environ[name]}" for name in names if name in os.environ]
    value = (
        f"{os.cpu_count()} logical processors, {tvm_runtime.available_processors()} for this"
        f" process; parallel kernels use {tvm_runtime.num_threads()} threads"
    )
    return InstallationFinding("threads", "ok", f"{value} ({', '.join(given)})" if given else value)


def _other_triple() -> str:
    return "x86_64-linux-gnu" if this_machine() == "aarch64" else "aarch64-linux-gnu"


def _linker(name: str, triple: str, *, needed: bool = False) -> InstallationFinding:
    from tvm_iree_ext.codegen.linker import find_linker

    purpose = f"for {triple}" if triple else "for this machine"
    try:
        command = find_linker(triple)
    except ExtError as error:
        return InstallationFinding(name, "missing", f"none {purpose}", str(error), needed)
    program = " ".join(command[: command.index("-shared")])
    return InstallationFinding(name, "ok", f"{program}, {purpose}", needed=needed)


def _cache() -> InstallationFinding:
    root = cache.root()
    value, advice = str(root), f"set {cache.VARIABLE} to a folder that can be written"
    try:
        entries, size = cache.size()
    except OSError as error:
        return InstallationFinding(
            "kernel cache", "wrong", f"{value}: {error.strerror}", advice, needed=True
        )
    nearest = next((p for p in (root, *root.parents) if p.exists()), root)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return InstallationFinding(
            "kernel cache", "wrong", f"{value}: not writable", advice, needed=True
        )
    value += f": {entries} kernels, {size / 1e6:.1f} MB"
    return InstallationFinding("kernel cache", "ok", value, needed=True)


def _optional() -> list[InstallationFinding]:
    return [
        _installed("tuning", ("xgboost-cpu", "xgboost"), "to tune: pip install xgboost-cpu"),
        _installed("IREE's bindings", ("iree-base-compiler",), _MLIR_ADVICE),
        _installed("PyTorch", ("torch",), "to compare speed with it: pip install torch"),
    ]


def _installed(name: str, packages: tuple[str, ...], advice: str) -> InstallationFinding:
    for package in packages:
        if (version := _version(package)) is not None:
            return InstallationFinding(name, "ok", f"{package} {version}")
    return InstallationFinding(name, "missing", f"no {' or '.join(packages)}", advice)


def _cuda() -> InstallationFinding:
    """Compilers of GPU kernels found here, which need no GPU, and whether there is one."""
    from tvm_iree_ext.codegen.gpu.cuda import find_tool, nvrtc_obstacle

    tools = {"NVRTC": not nvrtc_obstacle()}
    tools |= {name: find_tool(name) is not None for name in ("ptxas", "nvdisasm")}
    have = [name for name, there in tools.items() if there]
    lack = [name for name, there in tools.items() if not there]
    makes = "source, " + ", ".join(have) if have else "source"
    advice = "for PTX, cubin and SASS: pip install 'tvm-iree-ext[cuda]'" if lack else ""
    found = f"{makes}; {_device('/dev/nvidiactl')}"
    return InstallationFinding("CUDA", "missing" if lack else "ok", found, advice)


def _rocm() -> InstallationFinding:
    from tvm_iree_ext.codegen.linker import find_lld

    device = _device("/dev/kfd")
    try:
        command = " ".join(find_lld())
    except ExtError as error:
        return InstallationFinding("ROCm", "missing", f"assembly; {device}", str(error))
    return InstallationFinding("ROCm", "ok", f"code objects by {command}; {device}")


def _device(path: str) -> str:
    return "a device" if Path(path).exists() else "no device"
